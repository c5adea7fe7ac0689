// The page: what was pressed and pulled becomes questions to the server, one at a time; the answers become a picture.

const $ = (id) => document.getElementById(id);
const ground = $("ground"), overlay = $("overlay"), frames = $("frames");

const HANDLE = 7, GRAB = 13, SNAP = 9, NEAR_CURVE = 7, PULL = 8, STILL = 3; // pixels
const MOST_PATHS = 50, FRAMES = 11, SPREAD_KNOTS = 10, NO_NUMBER = 255; // as the server has them
const REST = 250; // milliseconds without a move, after which the search begins anew
const INK = "rgb(20 26 33 / 62%)";
const KINDS = ["#1f2933", "#2f7f4f", "#b3541e", "#5b4fa2", "#a8326e", "#2b7bba", "#7a6a1d", "#0f8b8d", "#7d4b32", "#6b7280"];
const WORDS = {
  sigma: ["σ", "how far a point makes steps cheap around it"],
  rho: ["ρ", "how cheap steps are where there are no points"],
};

let scene = null;
let settings = {};
let map = null; // the magnification, as a small canvas
let mapWanted = true;
let mapLast = false; // the map and the paths take turns
let view = { scale: 1, x: 0, y: 0, width: 1, height: 1 };
const paths = []; // { start, end, answer, failure, wanted: "quick" | "full" | null, color, row }
let selected = null;
let picked = null; // the first end of a path to be
let held = null; // { path, side, by: "pointer" | "cross", was, from, moved }: an end that follows one of them
let pressed = null; // where the pointer went down, if it may become a pull
let cross = null; // the keyboard's pointer
let shownFrame = null;
let born = 0;

// --- places: a point's number, or [x, y] ---

const place = (end) => (Array.isArray(end) ? end : scene.points[end]);
const toScreen = ([x, y]) => [view.x + x * view.scale, view.y - y * view.scale];
const toPlane = ([u, v]) => [(u - view.x) / view.scale, (view.y - v) / view.scale];
const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

function clamped([x, y]) {
  const [low, high] = scene.box;
  return [Math.min(Math.max(x, low[0]), high[0]), Math.min(Math.max(y, low[1]), high[1])];
}

function nearestPoint(at, within = Infinity) {
  let best = null, least = within / view.scale;
  const [x, y] = toPlane(at);
  scene.points.forEach((point, i) => {
    const away = Math.hypot(point[0] - x, point[1] - y);
    if (away <= least) [best, least] = [i, away];
  });
  return best;
}

// What is meant by a place on the screen: a point if one is near, or if only points can be ends.
function meant(at, within = SNAP) {
  const point = nearestPoint(at, scene.free ? within : Infinity);
  return point === null ? clamped(toPlane(at)) : point;
}

// --- questions, one at a time; newer ones replace those that wait ---

async function post(address, body) {
  const response = await fetch(address, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error ?? `the server said ${response.status}`);
  return response;
}

let asking = false;
async function ask() {
  if (asking) return;
  asking = true;
  busy(true);
  for (let job = nextJob(); job; job = nextJob()) {
    let waited = false;
    const patience = setTimeout(() => { waited = true; say("computing … (the first time, also compiling)"); }, 400);
    try {
      await job();
      if (waited) say("");
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
  const first = [held?.path, selected, ...paths].find((path) => path?.wanted);
  if (mapWanted && !(mapLast && first)) {
    mapLast = true;
    return askMap;
  }
  mapLast = false;
  return first ? () => askPath(first) : null;
}

async function askMap() {
  mapWanted = false;
  const answer = await (await post("/api/map", { settings })).json();
  if (!answer.cells) return;
  const levels = bytes(answer.cells), side = answer.side;
  const image = new ImageData(side, side);
  levels.forEach((level, i) => {
    const row = side - 1 - Math.floor(i / side), at = 4 * (row * side + (i % side));
    if (level === NO_NUMBER) return; // blank
    image.data.set([253 - level * 110 / 254, 253 - level * 100 / 254, 251 - level * 86 / 254, 255], at);
  });
  map = document.createElement("canvas");
  map.width = map.height = side;
  map.getContext("2d").putImageData(image, 0, 0);
  $("legend").hidden = false;
  $("least").textContent = `${answer.deeper ? "≤ " : ""}${brief(Math.exp(answer.least), 2)} × its size`;
  $("blank").hidden = !answer.blank;
  $("most").textContent = `${brief(Math.exp(answer.most), 2)} ×`;
  drawGround();
}

async function askPath(path) {
  const quick = path.wanted === "quick" && path.answer?.number;
  path.wanted = null;
  const { start, end } = path;
  try {
    const answer = await (await post("/api/path", { start, end, settings, near: quick || null })).json();
    Object.assign(path, { answer, failure: null });
    if (!answer.searched) searchLater();
    else if (path === selected && !path.wanted) announce(path);
  } catch (error) {
    Object.assign(path, { answer: null, failure: error.message }); // what was there was of other ends
    throw error;
  } finally {
    if (paths.includes(path)) listPaths();
  }
}

// An answer that began from an earlier path is not the last word: when nothing moves any more, search in full.
let later = null;
function searchLater() {
  clearTimeout(later);
  later = setTimeout(() => {
    if (held) return;
    for (const path of paths) if (path.answer && !path.answer.searched) path.wanted ??= "full";
    ask();
  }, REST);
}

function announce(path) {
  const { length, certified, converged } = path.answer;
  const sure = certified ? "certified" : converged ? "not certified" : "not converged";
  say(`path ${paths.indexOf(path) + 1}: length ${brief(length)}, ${sure}`);
}

function want(path, how) {
  path.wanted = how;
  ask();
}

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// --- paths ---

function addPath(start, end, how = "full") {
  if (paths.length >= MOST_PATHS) {
    say(`there are ${MOST_PATHS} paths: remove some first`, true);
    return null;
  }
  const number = born++, color = scene.colors[number % scene.colors.length];
  const path = { start, end, answer: null, failure: null, wanted: null, number, color, row: makeRow() };
  path.row.style.setProperty("--color", color);
  paths.push(path);
  selected = path;
  picked = null;
  want(path, how);
  listPaths();
  return path;
}

function removePath(path) {
  const at = paths.indexOf(path);
  if (at < 0) return;
  paths.splice(at, 1);
  if (held?.path === path) held = null;
  if (selected === path) selected = paths[Math.min(at, paths.length - 1)] ?? null;
  if (path.row.contains(document.activeElement)) overlay.focus();
  listPaths();
  draw();
}

function pick(end) {
  if (picked === null) picked = end;
  else addPath(picked, end);
  draw();
}

function move(path, side, end) {
  if (JSON.stringify(path[side]) === JSON.stringify(end)) return;
  path[side] = end;
  want(path, "quick");
  draw();
}

function drop(end) {
  const { path, side } = held;
  held = null;
  path[side] = end;
  want(path, "full"); // it came from afar: perhaps there is a shorter way by now
  draw();
}

function grabbed(at) {
  for (const path of [selected, ...[...paths].reverse()]) {
    if (!path) continue;
    for (const side of ["end", "start"]) {
      const there = toScreen(place(path[side]));
      if (apart(there, at) <= GRAB) return { path, side, was: path[side], from: at, off: [there[0] - at[0], there[1] - at[1]] };
    }
  }
  return null;
}

function touched(at) {
  return paths.find((path) => path.answer?.curve.some((point) => apart(toScreen(point), at) <= NEAR_CURVE));
}

// --- the pointer ---

const where = (event) => {
  const edge = overlay.getBoundingClientRect();
  return [event.clientX - edge.left, event.clientY - edge.top];
};

overlay.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || held || pressed) return; // one thing at a time
  overlay.setPointerCapture(event.pointerId);
  const at = where(event);
  cross = null;
  held = picked === null ? grabbed(at) : null;
  if (held) {
    held.by = "pointer";
    selected = held.path;
    listPaths();
  } else {
    const near = picked === null && nearestPoint(at, SNAP) === null && touched(at);
    if (near) {
      selected = near;
      listPaths();
    } else {
      pressed = { at, end: meant(at), first: picked === null };
      pick(pressed.end);
    }
  }
  draw();
});

overlay.addEventListener("pointermove", (event) => {
  const at = where(event);
  showLabel(at);
  if (pressed?.first && apart(at, pressed.at) > PULL) {
    const path = addPath(pressed.end, meant(at, 0));
    if (path) held = { path, side: "end", by: "pointer", was: path.end, moved: true };
    pressed = null;
  }
  if (held?.by === "pointer") {
    held.moved ||= apart(at, held.from) > STILL;
    if (held.moved) move(held.path, held.side, meant(aimed(at), 0));
  } else overlay.style.cursor = picked === null && grabbed(at) ? "grab" : "crosshair";
});

overlay.addEventListener("pointerup", (event) => {
  pressed = null;
  if (held?.by !== "pointer") return;
  if (held.moved) drop(meant(aimed(where(event))));
  else held = null; // it was only pressed, to select it
});
overlay.addEventListener("pointercancel", () => {
  pressed = null;
  if (held?.by === "pointer") drop(held.was);
});

// An end that was taken up beside its middle stays beside the pointer.
const aimed = (at) => (held.off ? [at[0] + held.off[0], at[1] + held.off[1]] : at);

overlay.addEventListener("pointerleave", () => { $("label").hidden = true; });

function showLabel(at) {
  const point = nearestPoint(at, SNAP);
  const label = $("label");
  label.hidden = point === null;
  if (point === null) return;
  label.textContent = scene.labels[point];
  const [u, v] = toScreen(scene.points[point]);
  label.style.left = `${Math.min(u + 10, view.width - label.offsetWidth - 4)}px`;
  label.style.top = `${Math.max(v - 28, 2)}px`;
}

// --- the keyboard ---

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

overlay.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (STEPS[event.key]) moveCross(STEPS[event.key], event.shiftKey);
  else if (event.key === "Enter" || event.key === " ") pressCross();
  else if (event.key === "Escape") escape();
  else if (event.key === "Delete" || event.key === "Backspace") removePath(selected);
  else if (/^[1-9]$/.test(event.key)) choose(paths[event.key - 1] ?? selected);
  else return;
  event.preventDefault();
  draw();
});

function moveCross([dx, dy], far) {
  cross ??= [view.width / 2, view.height / 2];
  if (scene.free) {
    const step = (far ? 0.1 : 0.015) * Math.min(view.width, view.height);
    cross = toScreen(clamped(toPlane([cross[0] + dx * step, cross[1] + dy * step])));
  } else {
    cross = nextPoint(cross, [dx, dy]) ?? cross;
  }
  if (held?.by === "cross") move(held.path, held.side, meant(cross, 0));
  showLabel(cross);
}

// Where only points can be ends, the cross goes from one to the next in that direction.
function nextPoint(from, [dx, dy]) {
  let best = null, least = Infinity;
  for (const point of scene.points) {
    const at = toScreen(point);
    const along = (at[0] - from[0]) * dx + (at[1] - from[1]) * dy;
    const across = Math.abs((at[0] - from[0]) * dy) + Math.abs((at[1] - from[1]) * dx);
    if (along > 0.5 && along >= across && along + 2 * across < least) [best, least] = [at, along + 2 * across];
  }
  return best;
}

function pressCross() {
  if (!cross) {
    cross = [view.width / 2, view.height / 2];
    return;
  }
  if (held) {
    if (held.by === "cross") drop(meant(cross));
    return;
  }
  const end = picked === null ? grabbed(cross) : null;
  if (end) {
    held = { ...end, by: "cross" };
    choose(end.path);
    say("taken up: the arrows move it, Enter puts it down");
  } else {
    pick(meant(cross));
    if (picked !== null) say("the first end is picked: go to the second and press Enter");
  }
}

function escape() {
  if (held) drop(held.was);
  picked = null;
  say("");
}

// --- the panel ---

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

const brief = (value, digits = 4) => (value === null || value === undefined ? "—" : String(Number(value.toPrecision(digits))));
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

function choose(path) {
  selected = path;
  listPaths();
  draw();
}

function listPaths() {
  for (const { row } of paths) if (!row.isConnected) $("paths").append(row);
  for (const row of [...$("paths").children]) if (!paths.some((path) => path.row === row)) row.remove();
  paths.forEach(describe);
  $("none").hidden = paths.length > 0;
  $("clear").hidden = paths.length === 0;
  for (const button of document.querySelectorAll("[data-kind=csv], #python")) button.disabled = paths.length === 0;
  drawFilm();
}

// Rows stay while their words change: a press is not lost when an answer comes.
function makeRow() {
  const row = element("li"), choice = element("button", "choose"), remove = element("button", "remove", "×");
  choice.type = remove.type = "button";
  const owner = () => paths.find((path) => path.row === row);
  choice.onclick = () => choose(owner());
  remove.onclick = () => removePath(owner());
  choice.append(element("span", "number"), element("span", "length"), element("span", "badge"), element("span", "small"));
  row.append(choice, remove);
  return row;
}

function describe(path, i) {
  const { row, answer, failure } = path, part = (name) => row.querySelector(`.${name}`);
  row.classList.toggle("selected", path === selected);
  part("choose").setAttribute("aria-pressed", path === selected);
  part("remove").setAttribute("aria-label", `remove path ${i + 1}`);
  part("number").textContent = i + 1;
  part("length").textContent = answer ? brief(answer.length) : failure ? "no path" : "…";
  part("badge").hidden = !answer;
  part("badge").classList.toggle("not", !answer?.certified);
  part("badge").textContent = answer?.certified ? "✓ certified" : answer?.converged ? "not certified" : "not converged";
  part("small").textContent = answer ? words(answer, path === selected) : failure ?? "";
}

function words(answer, all) {
  const times = answer.straight && answer.length ? `, ${brief(answer.straight / answer.length, 3)} × as long` : "";
  const lines = [`straight line ${brief(answer.straight)}${times}`];
  if (all) lines.push(answer.message, `estimated relative error below ${atMost(answer.error)}`, `posterior spread up to ${brief(answer.spread, 2)} (${SPREAD_KNOTS} knots)`);
  return lines.join("\n");
}

$("clear").onclick = () => {
  paths.length = 0;
  selected = held = picked = null;
  overlay.focus();
  listPaths();
  draw();
};

// --- the sliders: logarithmic ---

function makeSliders() {
  for (const [name, { value, least, most }] of Object.entries(scene.sliders)) {
    settings[name] = value;
    const [letter, meaning] = WORDS[name];
    const label = element("label"), output = element("output"), input = element("input");
    Object.assign(input, { type: "range", id: name, min: Math.log(least), max: Math.log(most), step: "any", value: Math.log(value) });
    output.id = `${name}-value`;
    label.append(element("span", "", letter), output, input, element("span", "small", meaning));
    const show = () => {
      output.textContent = Number(settings[name].toPrecision(3));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    const set = (number, how) => {
      settings = { ...settings, [name]: Math.min(Math.max(number, least), most) };
      show();
      mapWanted = true;
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
  return post("/api/take-away", { kind, paths: paths.map(({ start, end, number }) => ({ start, end, color: number })), settings });
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

// --- drawing ---

function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

function lookAt() {
  const { width, height } = overlay.getBoundingClientRect(), [low, high] = scene.box;
  const scale = Math.min(width / (high[0] - low[0]), height / (high[1] - low[1]));
  view = {
    scale, width, height,
    x: width / 2 - (scale * (low[0] + high[0])) / 2,
    y: height / 2 + (scale * (low[1] + high[1])) / 2,
  };
}

function drawGround() {
  lookAt();
  const pen = fitted(ground), [low, high] = scene.box;
  if (map) {
    const [left, top] = toScreen([low[0], high[1]]), [right, bottom] = toScreen([high[0], low[1]]);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(map, left, top, right - left, bottom - top);
  }
  const radius = scene.points.length > 3000 ? 1.4 : 2.2, color = pointColors();
  scene.points.forEach((point, i) => {
    const [u, v] = toScreen(point);
    pen.fillStyle = color(scene.labels[i]);
    pen.beginPath();
    pen.arc(u, v, radius, 0, 2 * Math.PI);
    pen.fill();
  });
  pen.fillStyle = "#3c4753";
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.fillText(scene.axes[0], view.width / 2, view.height - 6);
  pen.translate(13, view.height / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(scene.axes[1], 0, 0);
}

// Labels that many points share are kinds: each has its colour.
function pointColors() {
  const kinds = [...new Set(scene.labels)].sort();
  if (kinds.length < 2 || kinds.length > KINDS.length || kinds.length > scene.labels.length / 2) return () => INK;
  return (label) => KINDS[kinds.indexOf(label)];
}

function line(pen, points) {
  pen.beginPath();
  const known = points.filter((point) => point[0] !== null && point[1] !== null);
  known.map(toScreen).forEach(([u, v], i) => (i ? pen.lineTo(u, v) : pen.moveTo(u, v)));
}

function dot(pen, at, radius, fill, stroke = "#fff") {
  pen.beginPath();
  pen.arc(...toScreen(at), radius, 0, 2 * Math.PI);
  pen.fillStyle = fill;
  pen.strokeStyle = stroke;
  pen.lineWidth = 1.6;
  pen.fill();
  pen.stroke();
}

function draw() {
  const pen = fitted(overlay);
  for (const path of paths) drawPath(pen, path);
  if (picked !== null) dot(pen, place(picked), HANDLE, "#fff", "#1f2933");
  if (cross) {
    pen.strokeStyle = "#1f2933";
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const [dx, dy] of [[1, 0], [0, 1]]) {
      for (const s of [-1, 1]) {
        pen.moveTo(cross[0] + 4 * s * dx, cross[1] + 4 * s * dy);
        pen.lineTo(cross[0] + 14 * s * dx, cross[1] + 14 * s * dy);
      }
    }
    pen.stroke();
  }
  $("hint").textContent = hint();
  overlay.dataset.ready = String(Boolean(map || !scene.free));
}

function drawPath(pen, path) {
  const { answer, color } = path, ends = [place(path.start), place(path.end)];
  pen.lineJoin = pen.lineCap = "round";
  pen.setLineDash([2, 5]);
  pen.strokeStyle = color;
  pen.lineWidth = 1.2;
  line(pen, ends);
  pen.stroke();
  if (answer) {
    if (answer.band) {
      line(pen, answer.band);
      pen.fillStyle = color + "40";
      pen.fill();
    }
    line(pen, answer.curve);
    pen.setLineDash([]);
    pen.strokeStyle = "rgb(255 255 255 / 80%)";
    pen.lineWidth = path === selected ? 6 : 4.4;
    pen.stroke();
    pen.setLineDash(answer.converged ? [] : [7, 6]);
    pen.strokeStyle = color;
    pen.lineWidth = path === selected ? 3.4 : 2.2;
    pen.stroke();
  }
  pen.setLineDash([]);
  if (answer?.frames && path === selected) {
    answer.frames.places.forEach((at, i) => dot(pen, at, i === shownFrame ? 6 : 3, i === shownFrame ? "#fff" : color, i === shownFrame ? color : "#fff"));
  }
  for (const end of ends) dot(pen, end, path === selected ? HANDLE : HANDLE - 1.5, color);
}

function hint() {
  if (held) return "let go, and the search begins anew";
  if (picked !== null) return "now the other end";
  if (paths.length) return "";
  return "press one point, then another";
}

function drawFilm() {
  const film = selected?.answer?.frames;
  $("film").hidden = !scene.images; // its room is there from the beginning: nothing jumps when the first images come
  if (!scene.images) return;
  const [height, width] = scene.images, gap = 3, across = frames.parentElement.clientWidth - 24;
  const cell = Math.max(8, Math.min(72, across / FRAMES - gap, (72 * width) / height)), tall = (cell * height) / width;
  frames.style.height = `${2 * tall + gap}px`;
  const pen = fitted(frames);
  if (!film) return;
  const pixels = bytes(film.pixels), colors = film.shape[2] ?? 1;
  pen.imageSmoothingEnabled = false;
  for (let k = 0; k < 2 * film.count; k++) {
    const image = new ImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      const at = (k * width * height + i) * colors;
      const [r, g, b] = colors === 3 ? pixels.subarray(at, at + 3) : Array(3).fill(255 - pixels[at]);
      image.data.set([r, g, b, 255], 4 * i);
    }
    const small = document.createElement("canvas");
    [small.width, small.height] = [width, height];
    small.getContext("2d").putImageData(image, 0, 0);
    pen.drawImage(small, (k % film.count) * (cell + gap), Math.floor(k / film.count) * (tall + gap), cell, tall);
  }
  frames.dataset.cell = cell + gap;
}

frames.addEventListener("pointermove", (event) => {
  const column = Math.floor((event.clientX - frames.getBoundingClientRect().left) / frames.dataset.cell);
  shownFrame = column < (selected?.answer?.frames?.count ?? 0) ? column : null;
  draw();
});
frames.addEventListener("pointerleave", () => {
  shownFrame = null;
  draw();
});

function redraw() {
  drawGround();
  draw();
  drawFilm();
}

// --- begin ---

async function begin() {
  try {
    const response = await fetch("/api/scene");
    if (!response.ok) throw new Error(`the server said ${response.status}`);
    scene = await response.json();
  } catch (error) {
    say(`there is no server any more (${error.message}): start it again`, true);
    return;
  }
  document.title = `${scene.title} · orthodrome`;
  $("title").textContent = `${scene.title} · ${scene.points.length} points in ${scene.dimensions} dimensions`;
  makeSliders();
  listPaths();
  new ResizeObserver(redraw).observe($("canvases"));
  redraw();
  ask();
}

begin();
