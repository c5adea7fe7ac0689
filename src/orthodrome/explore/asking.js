// Questions to the server, one at a time; newer ones replace those that wait.

import { draw, drawGround } from "./drawing.js";
import { brief, describe, listPaths, say } from "./panel.js";
import { $, NO_NUMBER, paths, state } from "./state.js";

const REST = 250; // milliseconds without a move, after which the search begins anew
const COMPUTING = "computing … (the first time, also compiling)";
let mapLast = false; // the map and the paths take turns
let asked = 0;

export async function post(address, body) {
  const response = await fetch(address, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error ?? `the server said ${response.status}`);
  return response;
}

let asking = false;
export async function ask() {
  if (asking) return;
  asking = true;
  busy(true);
  for (let job = nextJob(); job; job = nextJob()) {
    let waited = false;
    const patience = setTimeout(() => { waited = true; say(COMPUTING); }, 400);
    try {
      await job();
      if (waited && $("status").textContent === COMPUTING) say("");
    } catch (error) {
      say(error.message, true);
    }
    clearTimeout(patience);
    draw();
  }
  asking = false;
  busy(false);
}

function busy(now) {
  document.querySelector("main").setAttribute("aria-busy", now);
}

function nextJob() {
  const waiting = paths.filter((path) => path.wanted).sort((a, b) => a.since - b.since);
  const first = state.held?.path.wanted ? state.held.path : waiting[0];
  if (state.mapWanted && !(mapLast && first)) {
    mapLast = true;
    return askMap;
  }
  mapLast = false;
  return first ? () => askPath(first) : null;
}

async function askMap() {
  state.mapWanted = false;
  let answer;
  try {
    answer = await (await post("/api/map", { settings: state.settings })).json();
  } catch (error) {
    state.map = null; // what was there was of another metric
    $("legend").hidden = true;
    drawGround();
    throw error;
  }
  if (!answer.cells) return;
  const levels = bytes(answer.cells), side = answer.side;
  const image = new ImageData(side, side);
  levels.forEach((level, i) => {
    const row = side - 1 - Math.floor(i / side), at = 4 * (row * side + (i % side));
    if (level === NO_NUMBER) return; // blank
    image.data.set([253 - level * 110 / 254, 253 - level * 100 / 254, 251 - level * 86 / 254, 255], at);
  });
  state.map = document.createElement("canvas");
  state.map.width = state.map.height = side;
  state.map.getContext("2d").putImageData(image, 0, 0);
  $("legend").hidden = false;
  $("least").textContent = `${answer.deeper ? "≤ " : ""}${brief(Math.exp(answer.least), 2)} × its size`;
  $("blank").hidden = !answer.blank;
  $("most").textContent = `${brief(Math.exp(answer.most), 2)} ×`;
  drawGround();
}

async function askPath(path) {
  const quick = path.wanted === "quick" && path.answer?.number;
  path.asked = path.wanted;
  path.wanted = null;
  const { start, end } = path;
  try {
    const answer = await (await post("/api/path", { start, end, settings: state.settings, near: quick || null })).json();
    Object.assign(path, { answer, failure: null });
    if (!answer.searched) searchLater();
    else if (path === state.selected && !path.wanted) announce(path);
  } catch (error) {
    Object.assign(path, { answer: null, failure: error.message }); // what was there was of other ends
    throw error;
  } finally {
    path.asked = null;
    if (paths.includes(path)) listPaths();
  }
}

// An answer that began from an earlier path is not the last word: when nothing moves any more, search in full.
let later = null;
function searchLater() {
  clearTimeout(later);
  later = setTimeout(() => {
    if (state.held) return searchLater();
    for (const path of paths) if (path.answer && !path.answer.searched) path.wanted ??= "full";
    ask();
  }, REST);
}

function announce(path) {
  const { length, certified, converged } = path.answer;
  const sure = certified ? "certified" : converged ? "not certified" : "not converged";
  say(`path ${paths.indexOf(path) + 1}: length ${brief(length)}, ${sure}`);
}

export function want(path, how) {
  if (!path.wanted) path.since = asked++; // who waits keeps its turn
  path.wanted = how;
  describe(path);
  ask();
}

export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
