// The panel: the list of paths, the sliders, what can be taken away.

import { ask, post } from "./asking.js";
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
  listPaths();
  draw();
}

export function listPaths() {
  for (const { row } of paths) if (!row.isConnected) $("paths").append(row);
  for (const row of [...$("paths").children]) if (!paths.some((path) => path.row === row)) row.remove();
  paths.forEach(describe);
  if (state.selected) reveal(state.selected.row);
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
  choice.append(element("span", "number"), element("span", "length"), element("span", "badge"), element("span", "small"));
  row.append(choice, remove);
  return row;
}

// Within the list only: scrollIntoView would move the whole page.
function reveal(row) {
  const list = $("paths"), bottom = row.offsetTop + row.offsetHeight;
  list.scrollTop = Math.max(Math.min(list.scrollTop, row.offsetTop), bottom - list.clientHeight);
}

function describe(path, i) {
  const { row, answer, failure } = path, part = (name) => row.querySelector(`.${name}`);
  row.classList.toggle("selected", path === state.selected);
  part("choose").setAttribute("aria-pressed", path === state.selected);
  part("remove").setAttribute("aria-label", `remove path ${i + 1}`);
  part("number").textContent = i + 1;
  part("length").textContent = answer ? brief(answer.length) : failure ? "no path" : "…";
  part("badge").hidden = !answer;
  part("badge").classList.toggle("not", !answer?.certified);
  part("badge").textContent = answer?.certified ? "✓ certified" : answer?.converged ? "not certified" : "not converged";
  part("small").textContent = answer ? words(answer, path === state.selected) : failure ?? "";
}

function words(answer, all) {
  const times = answer.straight && answer.length ? ` (${brief(answer.straight / answer.length, 3)} ×)` : "";
  const lines = [`straight line ${brief(answer.straight)}${times}`];
  if (all) lines.push(answer.message, `relative error below ${atMost(answer.error)}`, `posterior spread up to ${brief(answer.spread, 2)} (${SPREAD_KNOTS} knots)`);
  return lines.join("\n");
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
    const label = element("label"), output = element("output"), input = element("input");
    Object.assign(input, { type: "range", id: name, min: Math.log(least), max: Math.log(most), step: "any", value: Math.log(value) });
    output.id = `${name}-value`;
    label.append(element("span", "", letter), output, input, element("span", "small", meaning));
    const show = () => {
      output.textContent = Number(state.settings[name].toPrecision(3));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    const set = (number, how) => {
      state.settings = { ...state.settings, [name]: Math.min(Math.max(number, least), most) };
      show();
      state.mapWanted = true;
      for (const path of paths) path.wanted = how;
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
