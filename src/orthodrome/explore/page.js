// The page: what is pressed, pulled and typed. Questions, paths, panel and picture have files of their own.

import { ask } from "./asking.js";
import { draw, redraw } from "./drawing.js";
import { choose, listPaths, makeSliders, say } from "./panel.js";
import { addPath, drop, grabbed, move, pick, removePath, touched } from "./paths.js";
import { $, apart, clamped, meant, nearestPoint, overlay, paths, PULL, SNAP, state, STILL, toPlane, toScreen } from "./state.js";

let pressed = null; // where the pointer went down, if it may become a pull

// --- the pointer ---

const where = (event) => {
  const edge = overlay.getBoundingClientRect();
  return [event.clientX - edge.left, event.clientY - edge.top];
};

overlay.addEventListener("pointerdown", (event) => {
  if (state.held?.by === "cross") drop(meant(toScreen(state.cross))); // the keyboard's hand is empty now
  if (event.button !== 0 || state.held || pressed) return; // one thing at a time
  overlay.setPointerCapture(event.pointerId);
  const at = where(event);
  state.cross = null;
  state.held = state.picked === null ? grabbed(at) : null;
  if (state.held) {
    state.held.by = event.pointerId;
    state.held.again = state.held.path === state.selected;
    choose(state.held.path);
  } else {
    const near = state.picked === null && nearestPoint(at, SNAP) === null && touched(at);
    if (near) {
      choose(near);
    } else {
      pressed = { at, by: event.pointerId, end: meant(at), first: state.picked === null };
      pick(pressed.end);
    }
  }
  draw();
});

overlay.addEventListener("pointermove", (event) => {
  const at = where(event);
  showLabel(at);
  if (pressed?.first && pressed.by === event.pointerId && apart(at, pressed.at) > PULL) {
    const path = addPath(pressed.end, meant(at, 0));
    if (path) state.held = { path, side: "end", by: event.pointerId, was: path.end, moved: true };
    pressed = null;
  }
  if (state.held?.by === event.pointerId) {
    state.held.moved ||= apart(at, state.held.from) > STILL;
    if (state.held.moved) move(state.held.path, state.held.side, meant(aimed(at), 0));
  } else if (!state.held) overlay.style.cursor = state.picked === null && grabbed(at) ? "grab" : "crosshair";
});

overlay.addEventListener("pointerup", (event) => {
  if (pressed?.by === event.pointerId) pressed = null;
  if (state.held?.by !== event.pointerId) return;
  const { path, side, moved, again } = state.held;
  if (moved) return drop(meant(aimed(where(event))));
  state.held = null; // it was only pressed, to select it, or once more to begin another path there
  if (again) pick(path[side]);
  draw();
});
overlay.addEventListener("pointercancel", (event) => {
  if (pressed?.by === event.pointerId) pressed = null;
  if (state.held?.by === event.pointerId) drop(state.held.was);
});

// An end that was taken up beside its middle stays beside the pointer.
const aimed = (at) => (state.held.off ? [at[0] + state.held.off[0], at[1] + state.held.off[1]] : at);

overlay.addEventListener("pointerleave", () => { $("label").hidden = true; });

function showLabel(at) {
  const point = nearestPoint(at, SNAP);
  const label = $("label");
  label.hidden = point === null;
  if (point === null) return;
  label.textContent = state.scene.labels[point];
  const [u, v] = toScreen(state.scene.points[point]);
  label.style.left = `${Math.min(u + 10, state.view.width - label.offsetWidth - 4)}px`;
  label.style.top = `${Math.max(v - 28, 2)}px`;
}

// --- the keyboard ---

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

overlay.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (STEPS[event.key]) moveCross(STEPS[event.key], event.shiftKey);
  else if (event.key === "Enter" || event.key === " ") pressCross();
  else if (event.key === "Escape") escape();
  else if (event.key === "Delete" || event.key === "Backspace") removePath(state.selected);
  else if (/^[1-9]$/.test(event.key)) choose(paths[event.key - 1] ?? state.selected);
  else return;
  event.preventDefault();
  draw();
});

function moveCross([dx, dy], far) {
  state.cross ??= middle();
  const at = toScreen(state.cross);
  if (state.scene.free) {
    const step = (far ? 0.1 : 0.015) * Math.min(state.view.width, state.view.height);
    state.cross = clamped(toPlane([at[0] + dx * step, at[1] + dy * step]));
  } else {
    state.cross = nextPoint(at, [dx, dy]) ?? state.cross;
  }
  const there = toScreen(state.cross);
  if (state.held?.by === "cross") move(state.held.path, state.held.side, meant(there, 0));
  showLabel(there);
}

const middle = () => toPlane([state.view.width / 2, state.view.height / 2]);

// Where only points can be ends, the cross goes from one to the next in that direction.
function nextPoint(from, [dx, dy]) {
  let best = null, least = Infinity;
  for (const point of state.scene.points) {
    const at = toScreen(point);
    const along = (at[0] - from[0]) * dx + (at[1] - from[1]) * dy;
    const across = Math.abs((at[0] - from[0]) * dy) + Math.abs((at[1] - from[1]) * dx);
    if (along > 0.5 && along >= across && along + 2 * across < least) [best, least] = [point, along + 2 * across];
  }
  return best;
}

function pressCross() {
  if (!state.cross) {
    state.cross = middle();
    return;
  }
  const at = toScreen(state.cross);
  if (state.held) {
    if (state.held.by === "cross") drop(meant(at));
    return;
  }
  const end = state.picked === null ? grabbed(at) : null;
  if (end) {
    state.held = { ...end, by: "cross" };
    choose(end.path);
    say("taken up: the arrows move it, Enter puts it down");
  } else {
    pick(meant(at));
    if (state.picked !== null) say("the first end is picked: go to the second and press Enter");
  }
}

function escape() {
  if (state.held) drop(state.held.was);
  state.picked = null;
  say("");
}

// --- begin ---

async function begin() {
  try {
    const response = await fetch("/api/scene");
    if (!response.ok) throw new Error(`the server said ${response.status}`);
    state.scene = await response.json();
  } catch (error) {
    say(`there is no server any more (${error.message}): start it again`, true);
    return;
  }
  document.title = `${state.scene.title} · orthodrome`;
  $("title").textContent = `${state.scene.title} · ${state.scene.points.length} points in ${state.scene.dimensions} dimensions`;
  $("title").title = state.scene.title;
  overlay.inert = false;
  makeSliders();
  listPaths();
  new ResizeObserver(redraw).observe($("canvases"));
  redraw();
  ask();
}

begin();
