// Paths: made, moved, put down, removed.

import { want } from "./asking.js";
import { draw } from "./drawing.js";
import { listPaths, makeRow, say } from "./panel.js";
import { apart, GRAB, MOST_PATHS, NEAR_CURVE, overlay, paths, place, state, toScreen } from "./state.js";

let born = 0;

export function addPath(start, end) {
  if (paths.length >= MOST_PATHS) {
    say(`there are ${MOST_PATHS} paths: remove some first`, true);
    return null;
  }
  const number = born++, color = state.scene.colors[number % state.scene.colors.length];
  const path = { start, end, answer: null, failure: null, wanted: null, asked: null, since: 0, number, color, row: makeRow() };
  path.row.style.setProperty("--color", color);
  paths.push(path);
  state.selected = path;
  state.picked = null;
  want(path, "full");
  listPaths();
  return path;
}

export function removePath(path) {
  const at = paths.indexOf(path);
  if (at < 0) return;
  paths.splice(at, 1);
  if (state.held?.path === path) state.held = null;
  if (state.selected === path) state.selected = paths[Math.min(at, paths.length - 1)] ?? null;
  if (path.row.contains(document.activeElement)) overlay.focus();
  listPaths();
  draw();
}

export function pick(end) {
  if (state.picked === null) state.picked = end;
  else if (JSON.stringify(state.picked) === JSON.stringify(end)) state.picked = null; // pressed twice: never mind
  else addPath(state.picked, end);
  draw();
}

export function move(path, side, end) {
  if (JSON.stringify(path[side]) === JSON.stringify(end)) return;
  path[side] = end;
  say("");
  want(path, "quick");
  draw();
}

export function drop(end) {
  const { path, side } = state.held;
  state.held = null;
  path[side] = end;
  want(path, "full"); // it came from afar: perhaps there is a shorter way by now
  draw();
}

export function grabbed(at) {
  for (const path of [state.selected, ...[...paths].reverse()]) {
    if (!path) continue;
    for (const side of ["end", "start"]) {
      const there = toScreen(place(path[side]));
      if (apart(there, at) <= GRAB) return { path, side, was: path[side], from: at, off: [there[0] - at[0], there[1] - at[1]] };
    }
  }
  return null;
}

export function touched(at) {
  return paths.find((path) => path.answer?.curve.some((point) => apart(toScreen(point), at) <= NEAR_CURVE));
}
