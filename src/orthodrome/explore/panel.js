// The panel: the list of paths, the sliders, what can be taken away.

import { ask, post, want } from "./asking.js";
import { draw, drawFilm } from "./drawing.js";
import { removePath } from "./paths.js";
import { $, overlay, paths, SPREAD_KNOTS, state } from "./state.js";

const WORDS = {
  sigma: ["σ", "how far a point makes steps cheap around it"],
  rho: ["ρ", "how cheap steps are where there are no points"],
};

export function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

export function brief(value, digits = 4) {
  if (value === null || value === undefined) return "—";
  const small = value !== 0 && Math.abs(value) < 1e-3;
  return small ? value.toExponential(digits - 1).replace(/\.?0*e/, "e") : String(Number(value.toPrecision(digits)));
}

// With one digit, rounded up: what is said to lie below it does.
function atMost(value) {
  if (!(value > 0)) return value === 0 ? "0" : "—";
  const unit = 10 ** Math.floor(Math.log10(value));
  return (Math.ceil((value / unit) * (1 - 1e-12)) * unit).toExponential(0);
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function choose(path) {
  state.selected = path;
  if (path?.failure && !path.wanted) want(path, "full"); // perhaps it can be answered by now
  listPaths();
  draw();
}

let revealed = null; // which row was brought into sight last, and whether it had its answer

export function listPaths() {
  for (const { row } of paths) if (!row.isConnected) $("paths").append(row);
  for (const row of [...$("paths").children]) if (!paths.some((path) => path.row === row)) row.remove();
  for (const path of paths) describe(path);
  const shown = state.selected && `${state.selected.number} ${Boolean(state.selected.answer)}`;
  if (shown && shown !== revealed) reveal(state.selected.row);
  revealed = shown;
  $("none").hidden = paths.length > 0;
  $("clear").hidden = paths.length === 0;
  for (const button of document.querySelectorAll("[data-kind=csv], #python")) button.disabled = paths.length === 0;
  drawFilm();
}

// Rows stay while their words change: a press is not lost when an answer comes.
export function makeRow() {
  const row = element("li"), choice = element("button", "choose"), remove = element("button", "remove", "×");
  choice.type = remove.type = "button";
  const owner = () => paths.find((path) => path.row === row);
  choice.onclick = () => choose(owner());
  remove.onclick = () => removePath(owner());
  for (const part of ["number", "length", "badge", "small"]) choice.append(element("span", part), " ");
  row.append(choice, remove);
  return row;
}

// Within the list only: scrollIntoView would move the whole page.
function reveal(row) {
  const list = $("paths"), bottom = row.offsetTop + row.offsetHeight;
  list.scrollTop = Math.max(Math.min(list.scrollTop, row.offsetTop), bottom - list.clientHeight);
}

// An answer that was only followed, or is being asked for anew, is not the last word, and not called certified.
function verdict({ answer, wanted, asked }) {
  if (wanted || asked || !answer.searched) return [wanted === "quick" || !answer.searched ? "following" : "searching", "pending"];
  if (answer.certified) return ["✓ certified", ""];
  return [answer.converged ? "not certified" : "not converged", "not"];
}

export function describe(path) {
  const { row, answer, failure } = path, part = (name) => row.querySelector(`.${name}`), number = paths.indexOf(path) + 1;
  row.classList.toggle("selected", path === state.selected);
  part("choose").setAttribute("aria-pressed", path === state.selected);
  part("remove").setAttribute("aria-label", `remove path ${number}`);
  part("number").textContent = number;
  part("length").textContent = answer ? brief(answer.length) : failure ? "no path" : "…";
  part("badge").hidden = !answer;
  const [said, kind] = answer ? verdict(path) : ["", ""];
  part("badge").className = `badge ${kind}`;
  part("badge").textContent = said;
  part("small").textContent = answer ? words(answer, path === state.selected) : failure ?? "";
}

function words(answer, all) {
  const lines = [`straight line ${brief(answer.straight)}${beside(answer.straight / answer.length)}`];
  if (all) lines.push(answer.message, `relative error below ${atMost(answer.error)}`, `posterior spread up to ${brief(answer.spread, 2)} (${SPREAD_KNOTS} knots)`);
  return lines.join("\n");
}

// How much longer the straight line is.
function beside(ratio) {
  if (!Number.isFinite(ratio)) return "";
  if (ratio >= 3) return `, ${brief(ratio, 2)} times as long`;
  return `, ${brief(Math.abs(100 * (ratio - 1)), 2)} % ${ratio >= 1 ? "longer" : "shorter"}`;
}

$("clear").onclick = () => {
  paths.length = 0;
  state.selected = state.held = state.picked = null;
  overlay.focus();
  listPaths();
  draw();
};

// --- the sliders: logarithmic ---

export function makeSliders() {
  for (const [name, { value, least, most }] of Object.entries(state.scene.sliders)) {
    state.settings[name] = value;
    const [letter, meaning] = WORDS[name];
    const label = element("label"), output = element("span", "value"), input = element("input");
    Object.assign(input, { type: "range", id: name, min: Math.log(least), max: Math.log(most), step: "any", value: Math.log(value) });
    label.htmlFor = name;
    label.append(element("span", "", letter), output, input, element("span", "small", meaning));
    const show = () => {
      output.textContent = Number(state.settings[name].toPrecision(3));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    const set = (number, how) => {
      state.settings = { ...state.settings, [name]: Math.min(Math.max(number, least), most) };
      show();
      state.mapWanted = true;
      say("");
      for (const path of paths) want(path, how);
      ask();
    };
    input.oninput = () => set(Math.exp(input.value), "quick");
    input.onchange = () => set(Math.exp(input.value), "full");
    $("reset").addEventListener("click", () => { input.value = Math.log(value); set(value, "full"); });
    show();
    $("sliders").append(label);
    $("metric").hidden = false;
  }
}

// --- taking things away ---

async function take(kind) {
  return post("/api/take-away", { kind, paths: paths.map(({ start, end, number }) => ({ start, end, color: number })), settings: state.settings });
}

for (const button of document.querySelectorAll("[data-kind]")) {
  button.onclick = async () => {
    try {
      const link = element("a");
      link.href = URL.createObjectURL(await (await take(button.dataset.kind)).blob());
      link.download = `orthodrome_paths.${button.dataset.kind}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      say(`saved ${link.download}`);
    } catch (error) {
      say(error.message, true);
    }
  };
}

$("python").onclick = async () => {
  try {
    $("lines").textContent = await (await take("py")).text();
    $("copy").textContent = "Copy";
    $("code").showModal();
  } catch (error) {
    say(error.message, true);
  }
};
$("copy").onclick = async () => {
  try {
    await navigator.clipboard.writeText($("lines").textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("lines"));
    $("copy").textContent = "Selected: copy with Ctrl-C";
  }
};
$("close").onclick = () => $("code").close();
