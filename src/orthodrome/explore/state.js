// What the page knows, and where things are in the picture.

export const $ = (id) => document.getElementById(id);
export const ground = $("ground"), overlay = $("overlay"), frames = $("frames");

export const HANDLE = 7, GRAB = 13, SNAP = 9, NEAR_CURVE = 7, PULL = 8, STILL = 3; // pixels
export const MOST_PATHS = 50, FRAMES = 11, SPREAD_KNOTS = 10, NO_NUMBER = 255; // as the server has them

// { start, end, answer, failure, wanted and asked: "quick" | "full" | null, since, number, color, row }
export const paths = [];

export const state = {
  scene: null, // what the server says of the data
  settings: {}, // of the metric
  map: null, // the magnification, as a small canvas
  mapWanted: true,
  view: { scale: 1, x: 0, y: 0, width: 1, height: 1 },
  selected: null, // a path
  picked: null, // the first end of a path to be
  held: null, // { path, side, by: "cross" or the pointer's number, was, from, off, moved }: an end that follows one of them
  cross: null, // the keyboard's pointer, in the plane
  shownFrame: null, // the image under the pointer
};

// --- places: a point's number, or [x, y] ---

export const place = (end) => (Array.isArray(end) ? end : state.scene.points[end]);
export const toScreen = ([x, y]) => [state.view.x + x * state.view.scale, state.view.y - y * state.view.scale];
export const toPlane = ([u, v]) => [(u - state.view.x) / state.view.scale, (state.view.y - v) / state.view.scale];
export const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

export function clamped([x, y]) {
  const [low, high] = state.scene.box;
  return [Math.min(Math.max(x, low[0]), high[0]), Math.min(Math.max(y, low[1]), high[1])];
}

export function nearestPoint(at, within = Infinity) {
  let best = null, least = within / state.view.scale;
  const [x, y] = toPlane(at);
  state.scene.points.forEach((point, i) => {
    const away = Math.hypot(point[0] - x, point[1] - y);
    if (away <= least) [best, least] = [i, away];
  });
  return best;
}

// What is meant by a place on the screen: a point if one is near, or if only points can be ends.
export function meant(at, within = SNAP) {
  const point = nearestPoint(at, state.scene.free ? within : Infinity);
  return point === null ? clamped(toPlane(at)) : point;
}
