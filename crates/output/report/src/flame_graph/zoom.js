"use strict";
// A frame as it was drawn: its elements, place and width. All are set before anything else.
let frames = [], left = 0, whole = 0;

function begin() {
  frames = Array.from(document.querySelectorAll("#frames g"), (g) => {
    const [title, rect, text] = g.children;
    const number = (name) => Number(rect.getAttribute(name));
    return { g, rect, text, title: title.textContent, x: number("x"), y: number("y"), width: number("width") };
  });
  left = frames[0].x;
  whole = frames[0].width;
  for (const frame of frames) frame.g.addEventListener("click", () => zoom(frame));
  document.getElementById("whole").addEventListener("click", () => zoom(frames[0]));
  document.getElementById("search").addEventListener("click", search);
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      search();
    }
  });
}

// A title without the figures at its end.
function nameIn(title) {
  return title.slice(0, title.lastIndexOf(" ("));
}

// Makes a frame as wide as the picture. Those below it have no room for others than it.
function zoom(chosen) {
  const scale = whole / chosen.width, end = chosen.x + chosen.width;
  for (const { g, rect, text, title, x, y, width } of frames) {
    const from = Math.max(x, chosen.x), to = Math.min(x + width, end);
    const isSeen = to - from > 0.001 || (x === chosen.x && y === chosen.y);
    g.style.display = isSeen ? "" : "none";
    if (!isSeen) continue;
    const place = left + (from - chosen.x) * scale, wide = (to - from) * scale;
    rect.setAttribute("x", place.toFixed(2));
    rect.setAttribute("width", wide.toFixed(2));
    rect.style.opacity = y > chosen.y ? 0.5 : 1;
    text.setAttribute("x", (place + 3).toFixed(2));
    const label = nameIn(title);
    const room = Math.floor((wide - 6) / 7);
    text.textContent = label.length <= room ? label : room < 3 ? "" : label.slice(0, room - 1) + "…";
  }
  document.getElementById("whole").setAttribute("visibility", chosen === frames[0] ? "hidden" : "visible");
}

// Marks the frames whose names match a regular expression, and says how much of the whole they are.
function search() {
  const typed = prompt("Names that match this regular expression (nothing: none)");
  if (typed === null) return;
  let matches = () => false;
  try {
    const pattern = new RegExp(typed);
    if (typed !== "") matches = (name) => pattern.test(name);
  } catch {
    matches = (name) => name.includes(typed);
  }
  let sum = 0, reached = -1;
  const found = frames.filter(({ g, title }) => {
    const isFound = matches(nameIn(title));
    g.classList.toggle("found", isFound);
    return isFound;
  });
  // Frames inside of others count once.
  for (const { x, width } of found.sort((a, b) => a.x - b.x || b.width - a.width)) {
    const from = Math.max(x, reached);
    sum += Math.max(x + width - from, 0);
    reached = Math.max(reached, x + width);
  }
  document.getElementById("found").textContent = typed === "" ? " " : `Matched: ${(sum * 100 / whole).toFixed(1)} %`;
}
