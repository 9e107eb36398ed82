// A click on a head sorts the rows by its column; cells without a number come last.
"use strict";
const body = document.querySelector(".board tbody");
for (const head of document.querySelectorAll(".board th button")) head.addEventListener("click", () => {
  const cell = head.closest("th"), place = cell.cellIndex;
  const up = cell.getAttribute("aria-sort") === "descending" || (!cell.hasAttribute("aria-sort") && place < 2);
  for (const other of cell.parentNode.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = (row) => row.cells[place].dataset.value ?? "";
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (!x || !y) return !x - !y;
    return (up ? 1 : -1) * (place ? x - y : x.localeCompare(y));
  });
  body.replaceChildren(...rows);
});
