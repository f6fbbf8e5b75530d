// Checkpoints over time: one column each, duration above, size below. Drawn anew for the width at hand.

import { svg } from "./dom.js";
import * as format from "./format.js";

const SHOWN = 60;
const LEFT = 66;
const RIGHT = 8;
const PLOTS = { duration: { top: 24, bottom: 120 }, size: { top: 158, bottom: 254 } };
const HEIGHT = 290;
const MAX_STEP = 44;

/** The chart of the newest checkpoints; `onPick(checkpoint | null)` is told what the pointer is on. */
export function draw(checkpoints, width, onPick) {
  const shown = checkpoints.slice(-SHOWN);
  const step = Math.min((width - LEFT - RIGHT) / Math.max(shown.length, 1), MAX_STEP);
  const tallest = (...fields) => Math.max(0, ...shown.flatMap((one) => fields.map((field) => one[field] ?? 0)));
  const duration = axis(PLOTS.duration, ceiling(tallest("duration_ms", "sync_pause_ms"), 1000, 10));
  const size = axis(PLOTS.size, ceiling(tallest("state_bytes", "uploaded_bytes"), 1024, 2));
  const frameOf = { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT };
  const picture = svg("svg", { ...frameOf, role: "img", "aria-label": label(shown) });
  picture.append(
    ...frame("Duration", duration, width, format.duration),
    ...frame("Size", size, width, format.bytes),
    ...shown.flatMap((one, index) => column(one, LEFT + index * step, step, duration, size, onPick)),
    ...timeLabels(shown, step, width),
  );
  return picture;
}

const label = (shown) => `${shown.length} checkpoints: duration, and size of the state against what was uploaded`;

/** A round number at or above `value`: 1, 2 or 5 times a power of ten, or a power of two within a unit of bytes. */
export function ceiling(value, unit, base) {
  if (value <= 0) return unit;
  const scale = base === 2 ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const power = 10 ** Math.floor(Math.log10(value / scale));
  const steps = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
  return (steps.find((factor) => factor * power * scale >= value) ?? 10) * power * scale;
}

const axis = ({ top, bottom }, max) => ({ top, bottom, max, y: (value) => bottom - ((bottom - top) * value) / max });

function frame(title, { top, max, y }, width, write) {
  const lines = [0, max / 2, max].flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    svg("text", { class: "axis", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, write(value)),
  ]);
  return [svg("text", { class: "plot-title", x: LEFT, y: top - 9 }, title), ...lines];
}

function column(one, left, step, duration, size, onPick) {
  const gap = step > 6 ? Math.max(1.5, step * 0.16) : 0.5;
  const box = { x: left + gap, width: Math.max(1, step - 2 * gap) };
  const bar = (name, scale, value) =>
    value === null || value === undefined
      ? null
      : svg("rect", { class: name, ...box, ...extent(scale, value) });
  const parts = {
    COMPLETED: () => [
      bar("duration", duration, one.duration_ms), bar("pause", duration, one.sync_pause_ms),
      bar("full", size, one.state_bytes), bar("delta", size, one.uploaded_bytes),
    ],
    FAILED: () => [...cross(left + step / 2, duration), ...cross(left + step / 2, size)],
    IN_PROGRESS: () => [duration, size].map(({ top, bottom }) =>
      svg("rect", { class: "running", ...box, y: top, height: bottom - top })),
  }[one.status]();
  const mark = one.kind === "savepoint" ? diamond(left + step / 2, (duration.bottom + size.top) / 2 - 10) : null;
  const hit = svg("rect", { class: "hit", x: left, width: step, y: duration.top, height: size.bottom - duration.top });
  hit.addEventListener("pointerenter", () => onPick(one));
  hit.addEventListener("pointerleave", () => onPick(null));
  return [svg("g", { "data-checkpoint": one.id, "data-status": one.status }, ...parts, mark, hit)];
}

/** At least one pixel for what is not zero. */
function extent(scale, value) {
  const height = Math.max(scale.bottom - scale.y(value), value ? 1 : 0);
  return { y: scale.bottom - height, height };
}

function cross(x, { top, bottom }) {
  const d = 4;
  const y = bottom - 9;
  const path = `M${x - d} ${y - d}L${x + d} ${y + d}M${x + d} ${y - d}L${x - d} ${y + d}`;
  return [
    svg("line", { class: "cut", x1: x, x2: x, y1: top, y2: y - 8 }),
    svg("path", { class: "failed", d: path }),
  ];
}

const diamond = (x, y) =>
  svg("path", { class: "savepoint", d: `M${x} ${y - 5}L${x + 5} ${y}L${x} ${y + 5}L${x - 5} ${y}Z` });

function timeLabels(shown, step, width) {
  const every = Math.max(1, Math.ceil(76 / step));
  return shown.flatMap((one, index) => {
    const x = LEFT + (index + 0.5) * step;
    if (index % every !== 0 || x > width - 30) return [];
    return [
      svg("line", { class: "grid", x1: x, x2: x, y1: PLOTS.size.bottom, y2: PLOTS.size.bottom + 5 }),
      svg("text", { class: "axis", x, y: HEIGHT - 18, "text-anchor": "middle" }, format.time(one.trigger_ms)),
    ];
  });
}

/** One line about a checkpoint. */
export function describe(one) {
  const name = `${one.kind === "savepoint" ? "Savepoint" : "Checkpoint"} ${one.id}`;
  const head = `${name} · ${format.time(one.trigger_ms)} · epoch ${format.count(one.epoch)}`;
  if (one.status === "FAILED") return `${head} · failed: ${one.failure ?? "no reason given"}`;
  if (one.status === "IN_PROGRESS") return `${head} · in progress`;
  return (
    `${head} · ${format.duration(one.duration_ms)}, epoch paused ${format.duration(one.sync_pause_ms)}` +
    ` · ${format.bytes(one.state_bytes)}, uploaded ${format.bytes(one.uploaded_bytes)}`
  );
}
