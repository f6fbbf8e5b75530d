// The last hour: keeps the points that the driver has told, asks for new ones only, and draws a small chart of each.

import * as api from "./api.js";
import { ceiling } from "./chart.js";
import { byId, html, svg } from "./dom.js";
import * as format from "./format.js";

const HEIGHT = 118;
const LEFT = 62;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 94;
const LEAST_POINTS = 60; // five minutes: a driver that has just begun does not fill the whole width
const REFRESH_MS = 5000;
const CHARTS = [
  { key: "rows_per_s", title: "Rows per second", write: format.rate, unit: 1, base: 10 },
  { key: "epoch_ms", title: "Epoch time", write: format.duration, unit: 100, base: 10 },
  { key: "lag_ms", title: "Watermark lag", write: format.duration, unit: 1000, base: 10 },
  { key: "state_bytes", title: "State", write: format.bytes, unit: 1024, base: 2 },
  { key: "memory_bytes", title: "Memory against budget", write: format.bytes, unit: 1024, base: 2, limit: "budget_bytes" },
  { key: "checkpoint_ms", title: "Checkpoint duration", write: format.duration, unit: 1000, base: 10, sparse: true },
  { key: "checkpoint_bytes", title: "Checkpoint upload", write: format.bytes, unit: 1024, base: 2, sparse: true },
];
const KEYS = [...CHARTS.map(({ key }) => key), "budget_bytes"];

let kept = null;
let askedAt = 0;

/** Asks for new points if it is time; draws what is there. `recoveries` are marked. */
export async function refresh(recoveries) {
  if (Date.now() - askedAt >= REFRESH_MS) {
    askedAt = Date.now();
    take(await api.get(`/v1/series?after=${kept?.last ?? 0}`));
  }
  draw(recoveries);
}

/** Joins new points to those that are kept; another driver's begin anew. */
function take(told) {
  const goesOn = kept && kept.started_ms === told.started_ms && told.last >= kept.last;
  if (kept && !goesOn && told.rows_per_s.length < told.last) return forget(); // asked for too few: all next time
  const joined = { ...told };
  for (const key of KEYS) joined[key] = [...(goesOn ? kept[key] : []), ...told[key]].slice(-told.capacity);
  kept = joined;
  return undefined;
}

function forget() {
  kept = null;
  askedAt = 0;
}

/** Draws all charts for the width at hand. */
export function draw(recoveries) {
  const place = byId("series-charts");
  byId("series").hidden = !kept || !kept.last;
  if (!kept || !kept.last || !place.clientWidth) return;
  if (!place.children.length) place.append(...CHARTS.map(figure));
  const marks = recoveries.map(({ at_ms: at }) => at);
  CHARTS.forEach((chart, index) => fill(place.children[index], chart, marks));
  byId("series-rows").replaceChildren(...minutes().map(row));
}

function figure({ key, title }) {
  const caption = html("figcaption", {}, html("span", {}, title), html("output", { "data-series": key }));
  return html("figure", { class: "series" }, caption, html("div", { class: "plot" }));
}

function fill(element, chart, marks) {
  const values = kept[chart.key];
  const read = element.querySelector("output");
  const newest = chart.sparse ? values.findLast((value) => value !== null) : values.at(-1);
  const told = (value) => {
    read.textContent = chart.write(value);
  };
  told(newest);
  const plot = element.querySelector(".plot");
  plot.replaceChildren(picture(chart, values, plot.clientWidth, marks, (value) => told(value === undefined ? newest : value)));
}

function picture(chart, values, width, marks, onPick) {
  const span = Math.max(LEAST_POINTS, values.length);
  const limits = chart.limit ? kept[chart.limit] : [];
  const tallest = Math.max(0, ...values, ...limits);
  const max = ceiling(tallest, chart.unit, chart.base);
  const x = (index) => LEFT + ((span - values.length + index + 0.5) * (width - LEFT - RIGHT)) / span;
  const y = (value) => BOTTOM - ((BOTTOM - TOP) * Math.max(0, value)) / max;
  const size = { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT };
  const drawn = svg("svg", { ...size, role: "img", "aria-label": describe(chart, values) });
  drawn.append(
    ...[0, max].flatMap((value) => grid(value, y(value), width, chart.write)),
    ...marks.flatMap((at) => mark(at, values.length, x, width)),
    ...(chart.sparse ? stems(values, x, y) : lines(values, x, y, "series-line")),
    ...lines(limits, x, y, "series-limit"),
    ...times(span, width),
  );
  drawn.addEventListener("pointermove", (event) => {
    const index = Math.round(((event.offsetX - LEFT) * span) / (width - LEFT - RIGHT) - 0.5) - (span - values.length);
    onPick(index >= 0 && index < values.length ? values[index] : undefined);
  });
  drawn.addEventListener("pointerleave", () => onPick(undefined));
  return drawn;
}

function describe({ title, write }, values) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return `${title}: nothing measured yet`;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return `${title}: ${write(known.at(-1))} last, between ${write(least)} and ${write(most)}`;
}

function grid(value, at, width, write) {
  return [
    svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }),
    svg("text", { class: "axis", x: LEFT - 7, y: at + 4, "text-anchor": "end" }, write(value)),
  ];
}

/** One path for each run without a gap; a value alone is a dot. */
function lines(values, x, y, name) {
  const runs = [];
  values.forEach((value, index) => {
    if (value === null) return;
    const last = runs.at(-1);
    if (last && last.at(-1)[0] === index - 1) last.push([index, value]);
    else runs.push([[index, value]]);
  });
  return runs.map((run) => run.length === 1
    ? svg("circle", { class: `${name} dot`, cx: x(run[0][0]), cy: y(run[0][1]), r: 2 })
    : svg("path", { class: name, d: `M${run.map(([index, value]) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}` }));
}

function stems(values, x, y) {
  return values.flatMap((value, index) => value === null ? [] : [
    svg("line", { class: "series-stem", x1: x(index), x2: x(index), y1: BOTTOM, y2: y(value) }),
    svg("circle", { class: "series-line dot", cx: x(index), cy: y(value), r: 2 }),
  ]);
}

function mark(at, count, x, width) {
  const index = count - 1 - (kept.until_ms - at) / kept.period_ms;
  const place = x(index);
  if (index > count || place < LEFT || place > width - RIGHT) return [];
  return [svg("line", { class: "cut", x1: place, x2: place, y1: TOP, y2: BOTTOM }, svg("title", {}, "recovery"))];
}

function times(span, width) {
  const text = (ms, x, anchor) => svg("text", { class: "axis", x, y: HEIGHT - 6, "text-anchor": anchor }, format.time(ms));
  return [
    text(kept.until_ms - span * kept.period_ms, LEFT, "start"),
    text(kept.until_ms, width - RIGHT, "end"),
  ];
}

/** The newest point of each minute, newest first. */
function minutes() {
  const step = Math.round(60000 / kept.period_ms);
  const count = kept.rows_per_s.length;
  const found = [];
  for (let index = count - 1; index >= 0; index -= step) found.push(index);
  return found;
}

function row(index) {
  const at = kept.until_ms - (kept.rows_per_s.length - 1 - index) * kept.period_ms;
  const cells = CHARTS.map(({ key, write }) => html("td", { class: "num" }, write(kept[key][index])));
  return html("tr", {}, html("td", {}, format.time(at)), ...cells);
}
