// State is in the address (#view=vt&length=4096&sort=size), so that a view can be linked to.
"use strict";
const board = JSON.parse(document.getElementById("data").textContent);
const el = (id) => document.getElementById(id);
const short = (n) => n % 1024 ? String(n) : n / 1024 + "K";
const fields = ["view", "length", "name", "least", "most", "threshold"];
const start = { view: "all", length: "all", name: "", least: "", most: "", threshold: String(board.threshold), sort: "score", up: "" };
for (const n of board.lengths) start["w" + n] = String(Math.round(board.weights[n] * 1e4) / 1e4);
let state = {};

function option(select, value, text) {
  const one = document.createElement("option");
  one.value = value;
  one.textContent = text;
  select.append(one);
}
option(el("view"), "all", "all tasks");
for (const [category, tasks] of Object.entries(board.tasks)) {
  option(el("view"), category, category);
  for (const task of tasks) option(el("view"), task, "\u00a0\u00a0" + task);
}
option(el("length"), "all", "weighted mean");
for (const n of board.lengths) option(el("length"), n, short(n));
for (const n of board.lengths) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { id: "w" + n, type: "number", min: 0, step: "any" });
  label.append(short(n) + " ", input);
  el("weights").append(label);
}
const inputs = [...fields, ...board.lengths.map((n) => "w" + n)];

function weighted(cells) {
  let sum = 0, least = 0, total = 0;
  for (const n of board.lengths) {
    const weight = Number(state["w" + n]) || 0;
    if (!weight) continue;
    if (!cells[n]) return null;
    sum += weight * cells[n][0];
    least += weight * cells[n][5];
    total += weight;
  }
  return total ? [sum / total, null, null, null, null, least / total] : null;
}

function row(entry) {
  const cells = entry.scores[state.view] || {};
  const own = board.lengths.some((n) => state["w" + n] !== start["w" + n]);
  const cell = state.length === "all" && own ? weighted(cells) : cells[state.length];
  const all = entry.scores.all || {};
  const known = board.lengths.filter((n) => all[n]);
  let effective = entry.reach ? 0 : null;
  if (entry.reach) for (const n of known) if (all[n][5] >= Number(state.threshold)) effective = n;
  let reach = entry.reach;
  if (reach && state.threshold !== start.threshold) reach = effective ? (effective === known.at(-1) ? "\u2265" : "") + short(effective) : "none";
  const by = { model: entry.model, size: entry.size, score: cell ? cell[5] : null, effective, window: entry.window };
  for (const n of board.lengths) by[n] = cells[n] ? cells[n][5] : null;
  by.rank = cell ? cell[3] || null : null;
  return { entry, cells, cell, by, reach };
}

function add(parent, tag, text) {
  const one = document.createElement(tag);
  one.textContent = text;
  parent.append(one);
  return one;
}

function number(parent, cell) {
  const td = add(parent, "td", cell ? cell[0].toFixed(1) : "");
  if (cell && cell[1] !== null) add(td, "small", "[" + cell[1].toFixed(1) + ", " + cell[2].toFixed(1) + "]");
  if (cell) td.style.setProperty("--bar-width", cell[0] + "%");
}

function draw() {
  const columns = [["model", "model"], ["rank", "rank"], ["size", "size (B)"], ["score", "score"], ["effective", "effective"], ["window", "declared"]];
  for (const n of board.lengths) columns.push([String(n), short(n)]);
  el("head").replaceChildren();
  for (const [key, text] of columns) {
    const th = add(el("head"), "th", "");
    th.scope = "col";
    if (state.sort === key) th.setAttribute("aria-sort", state.up ? "ascending" : "descending");
    const button = add(th, "button", text + (state.sort === key ? (state.up ? " \u25b2" : " \u25bc") : ""));
    button.type = "button";
    if (key === "score" || key in board.weights) button.title = "sorts by the mean in which unanswered rows are wrong";
    button.addEventListener("click", () => {
      const up = state.sort === key ? !state.up : key === "model" || key === "rank";
      state = { ...state, sort: key, up: up ? "1" : "" };
      save();
    });
  }
  const least = state.least === "" ? null : Number(state.least);
  const most = state.most === "" ? null : Number(state.most);
  const rows = board.entries.map(row).filter(({ entry }) =>
    entry.model.toLowerCase().includes(state.name.toLowerCase()) &&
    (least === null || (entry.size !== null && entry.size >= least)) &&
    (most === null || (entry.size !== null && entry.size <= most)));
  const way = state.up ? 1 : -1;
  rows.sort((a, b) => {
    const [x, y] = [a.by[state.sort], b.by[state.sort]];
    if (x === null || y === null) return (x === null) - (y === null);
    return way * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
  el("body").replaceChildren();
  for (const { entry, cells, cell, reach } of rows) {
    const tr = add(el("body"), "tr", "");
    const head = add(tr, "th", entry.model);
    Object.assign(head, { scope: "row", title: entry.validity });
    add(tr, "td", cell && cell[3] ? (cell[3] === cell[4] ? cell[3] : cell[3] + "-" + cell[4]) : "");
    add(tr, "td", entry.size === null ? "" : entry.size);
    number(tr, cell);
    add(tr, "td", reach);
    add(tr, "td", entry.window ? short(entry.window) : "");
    for (const n of board.lengths) number(tr, cells[n]);
  }
  el("count").textContent = rows.length + " of " + board.entries.length + " runs";
}

function save() {
  const changed = Object.entries(state).filter(([key, value]) => String(value) !== start[key]);
  location.hash = new URLSearchParams(changed).toString();
  draw();
}
function load() {
  state = { ...start };
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (key in start) state[key] = value;
  for (const id of inputs) el(id).value = state[id];
  draw();
}
for (const id of inputs) el(id).addEventListener("input", () => { state = { ...state, [id]: el(id).value }; save(); });
window.addEventListener("hashchange", load);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
load();
