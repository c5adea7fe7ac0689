// The picture: the ground with the data, the paths over it, the images beneath.

import { bytes } from "./asking.js";
import { $, frames, FRAMES, ground, HANDLE, overlay, paths, place, state, toScreen } from "./state.js";

const INK = "rgb(20 26 33 / 62%)";
const KINDS = ["#1f2933", "#2f7f4f", "#b3541e", "#5b4fa2", "#a8326e", "#2b7bba", "#7a6a1d", "#0f8b8d", "#7d4b32", "#6b7280"];

function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

function lookAt() {
  const { width, height } = overlay.getBoundingClientRect(), [low, high] = state.scene.box;
  const scale = Math.min(width / (high[0] - low[0]), height / (high[1] - low[1]));
  state.view = {
    scale, width, height,
    x: width / 2 - (scale * (low[0] + high[0])) / 2,
    y: height / 2 + (scale * (low[1] + high[1])) / 2,
  };
}

export function drawGround() {
  lookAt();
  const pen = fitted(ground), [low, high] = state.scene.box;
  const [left, top] = toScreen([low[0], high[1]]), [right, bottom] = toScreen([high[0], low[1]]);
  if (state.map) {
    pen.imageSmoothingQuality = "high";
    pen.drawImage(state.map, left, top, right - left, bottom - top);
  }
  const radius = state.scene.points.length > 3000 ? 1.4 : 2.2, color = pointColors();
  state.scene.points.forEach((point, i) => {
    const [u, v] = toScreen(point);
    pen.fillStyle = color(state.scene.labels[i]);
    pen.beginPath();
    pen.arc(u, v, radius, 0, 2 * Math.PI);
    pen.fill();
  });
  Object.assign(pen, { fillStyle: "#1f2933", strokeStyle: "rgb(255 255 255 / 80%)", lineWidth: 3, lineJoin: "round" });
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  write(pen, state.scene.axes[0], state.view.width / 2, bottom - 6);
  pen.translate(left + 13, state.view.height / 2);
  pen.rotate(-Math.PI / 2);
  write(pen, state.scene.axes[1], 0, 0);
}

// With a light edge, to be read on any ground.
function write(pen, text, x, y) {
  pen.strokeText(text, x, y);
  pen.fillText(text, x, y);
}

// Labels that many points share are kinds: each has its colour.
function pointColors() {
  const kinds = [...new Set(state.scene.labels)].sort();
  if (kinds.length < 2 || kinds.length > KINDS.length || kinds.length > state.scene.labels.length / 2) return () => INK;
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

export function draw() {
  const pen = fitted(overlay);
  for (const path of paths) drawPath(pen, path);
  if (state.picked !== null) dot(pen, place(state.picked), HANDLE, "#fff", "#1f2933");
  if (state.cross) {
    const cross = toScreen(state.cross);
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
  overlay.dataset.ready = String(Boolean(state.map || !state.scene.free));
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
    pen.globalAlpha = path.wanted === "full" || path.asked === "full" ? 0.45 : 1; // of other ends, or another metric
    pen.setLineDash([]);
    pen.strokeStyle = "rgb(255 255 255 / 80%)";
    pen.lineWidth = path === state.selected ? 6 : 4.4;
    pen.stroke();
    pen.setLineDash(answer.converged ? [] : [7, 6]);
    pen.strokeStyle = color;
    pen.lineWidth = path === state.selected ? 3.4 : 2.2;
    pen.stroke();
    pen.globalAlpha = 1;
  }
  pen.setLineDash([]);
  if (answer?.frames && path === state.selected) {
    answer.frames.places.forEach((at, i) => dot(pen, at, i === state.shownFrame ? 6 : 3, i === state.shownFrame ? "#fff" : color, i === state.shownFrame ? color : "#fff"));
  }
  for (const end of ends) dot(pen, end, path === state.selected ? HANDLE : HANDLE - 1.5, color);
}

function hint() {
  if (state.held) return "let go, and the search begins anew";
  if (state.picked !== null) return "now the other end";
  if (paths.length) return "";
  return "press one point, then another";
}

export function drawFilm() {
  const film = state.selected?.answer?.frames;
  $("film").hidden = !state.scene.images; // its room is there from the beginning: nothing jumps when the first images come
  if (!state.scene.images) return;
  const [height, width] = state.scene.images, gap = 3, across = frames.parentElement.clientWidth - 24;
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
  state.shownFrame = column < (state.selected?.answer?.frames?.count ?? 0) ? column : null;
  draw();
});
frames.addEventListener("pointerleave", () => {
  state.shownFrame = null;
  draw();
});

export function redraw() {
  drawGround();
  draw();
  drawFilm();
}
