// A click on a head sorts the rows by its column; cells without a number come last.
"use strict";
const body = document.querySelector(".board tbody");
for (const head of document.querySelectorAll(".board th button")) head.addEventListener("click", () => {
  const cell = head.closest("th"), place = cell.cellIndex;
  const up = cell.getAttribute("aria-sort") === "descending" || (!cell.hasAttribute("aria-sort") && place < 2);
  for (const other of cell.parentNode.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", up ? "ascending" : "descending");
  const number = (row) => parseFloat(row.cells[place].dataset.value ?? row.cells[place].textContent);
  const compare = (a, b) => place ? number(a) - number(b) : a.cells[0].textContent.localeCompare(b.cells[0].textContent);
  const rows = [...body.rows].sort((a, b) => {
    if (place && (isNaN(number(a)) || isNaN(number(b)))) return isNaN(number(a)) - isNaN(number(b));
    return (up ? 1 : -1) * compare(a, b);
  });
  body.replaceChildren(...rows);
});
