// The job's operators as a picture: sources, operators, side outputs and sinks, and the ways of the rows.

import { svg } from "./dom.js";
import * as format from "./format.js";
import { arranged } from "./layers.js";

const PAD = 12;
const LINE = 18;
const BESIDE = 8; // between a name and the rows that stand on its line
const LONGEST = 400; // characters of a text: more fit into no box
const KINDS = { source: "source", operator: "operator", "side-output": "side output", sink: "sink" };

/** Draws the graph into `place`, for the width at hand. */
export function draw(graph, place) {
  const plan = arranged(graph, place.clientWidth - 2, heightOf);
  const [wide, high] = [plan.width + 2, plan.height + 2]; // a pixel around for the nodes' borders
  const size = { viewBox: `-1 0 ${wide} ${high}`, width: wide, height: high };
  const picture = svg("svg", { ...size, role: "img", "aria-label": label(graph), class: "graph" });
  picture.append(
    ...graph.edges.flatMap((edge) => way(edge, plan)),
    ...graph.nodes.map((node) => card(node, plan, graph.edges)),
    ...graph.edges.flatMap((edge) => tag(edge, plan)),
  );
  place.replaceChildren(picture);
  picture.querySelectorAll("[data-node]").forEach(fitTexts);
}

function label({ nodes }) {
  const names = (kind) => nodes.filter((node) => node.kind === kind).map((node) => node.name).join(", ") || "none";
  return `The job's operators. Sources: ${names("source")}. Operators: ${names("operator")}. Sinks: ${names("sink")}.`;
}

const heightOf = (node) => (node.figures ? 148 : 54);

function card(node, plan, edges) {
  const box = plan.boxes.get(node.id);
  const group = svg("g", { "data-node": node.id, "data-kind": node.kind, transform: `translate(${box.x} ${box.y + 1})` });
  group.append(
    svg("title", {}, `${node.name}: ${node.detail || KINDS[node.kind]}`),
    svg("rect", { class: `node ${node.kind}`, width: box.width, height: box.height, rx: 9 }),
    line(0, "node-name", node.name),
    line(1, "node-detail", node.detail || KINDS[node.kind]),
    ...(node.figures ? figures(node.figures, box) : []),
    ...(plan.form === "list" ? arriving(node, plan, edges) : []),
  );
  return group;
}

const line = (number, name, text) => svg("text", { class: name, x: PAD, y: 24 + number * LINE }, text.slice(0, LONGEST));

/** Cuts the texts of a node that has been drawn: only then do they have a width, in whatever font there is. */
function fitTexts(group) {
  const room = group.querySelector(".node").width.baseVal.value - 2 * PAD;
  const beside = group.querySelector(".edge-label");
  const taken = beside ? beside.getComputedTextLength() + BESIDE : 0;
  fit(group.querySelector(".node-name"), room - taken);
  group.querySelectorAll(".node-detail, .node-figure").forEach((text) => fit(text, room));
}

function fit(element, room) {
  const letters = [...element.textContent];
  let wide = element.getComputedTextLength();
  for (let kept = letters.length; wide > room && kept > 1; wide = element.getComputedTextLength()) {
    kept = Math.max(1, Math.min(kept - 1, Math.floor((kept * room) / wide)));
    element.textContent = `${letters.slice(0, kept).join("")}…`;
  }
}

function figures(one, box) {
  const wide = box.width - 2 * PAD;
  const share = one.busy_share;
  const lines = [
    `${format.rate(one.rows_in_per_s)} in, ${format.rate(one.rows_out_per_s)} out /s`,
    `${format.bytes(one.state_bytes)}, ${format.count(one.timers)} timers`,
    `${format.count(one.late_rows_total)} late, ${format.count(one.dropped_rows_total)} dropped`,
    share === null ? "no epoch yet" : `${percent(share)} of epoch time`,
  ];
  return [
    ...lines.map((text, index) => line(index + 2, "node-figure", text)),
    svg("rect", { class: "share-track", x: PAD, y: box.height - 16, width: wide, height: 6, rx: 3 }),
    svg("rect", { class: "share", x: PAD, y: box.height - 16, width: wide * (share ?? 0), height: 6, rx: 3 }),
  ];
}

/** A share of one as per cent; what is little is not nothing. */
export const percent = (share) => (share > 0 && share < 0.01 ? "under 1 %" : `${Math.round(share * 100)} %`);

/** Where an edge begins and ends: x and y of both. */
function ends(edge, { form, boxes }) {
  const [from, to] = [boxes.get(edge.source), boxes.get(edge.target)];
  if (!from || !to) return null;
  if (form === "list") return [from.x + 9, from.y + from.height + 1, to.x, to.y + 25];
  const middle = (box) => (form === "across" ? box.y + box.height / 2 + 1 : box.x + box.width / 2);
  return form === "across"
    ? [from.x + from.width, middle(from), to.x, middle(to)]
    : [middle(from), from.y + from.height + 1, middle(to), to.y];
}

function way(edge, plan) {
  const found = ends(edge, plan);
  if (!found) return [];
  const [x1, y1, x2, y2] = found;
  const [cx, cy] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const curve = {
    across: `C${cx} ${y1} ${cx} ${y2} ${x2 - 7} ${y2}`,
    below: `C${x1} ${cy} ${x2} ${cy} ${x2} ${y2 - 7}`,
    list: `V${y2}H${x2 - 4}`,
  }[plan.form];
  const head = plan.form === "below"
    ? `M${x2 - 5} ${y2 - 8}L${x2} ${y2}L${x2 + 5} ${y2 - 8}Z`
    : `M${x2 - 8} ${y2 - 5}L${x2} ${y2}L${x2 - 8} ${y2 + 5}Z`;
  return [
    svg("path", { class: "edge", "data-edge": `${edge.source}→${edge.target}`, d: `M${x1} ${y1}${curve}` }),
    svg("path", { class: "arrow", d: head }),
  ];
}

/** The rows that take an edge, where nodes stand apart. */
function tag(edge, plan) {
  const found = ends(edge, plan);
  if (!found || plan.form === "list" || edge.rows_per_s === null) return [];
  const [x1, y1, x2, y2] = found;
  const place = {
    across: { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 7, "text-anchor": "middle" },
    below: { x: (x1 + x2) / 2 + 8, y: (y1 + y2) / 2 + 4 },
  }[plan.form];
  return [svg("text", { class: "edge-label", ...place }, perSecond(edge))];
}

/** In a list: the rows that reach a node, on the line of its name, if it has one way in. */
function arriving(node, { boxes }, edges) {
  const [edge, ...others] = edges.filter(({ target }) => target === node.id);
  if (!edge || others.length || !boxes.has(edge.source) || edge.rows_per_s === null) return [];
  const place = { x: boxes.get(node.id).width - PAD, y: 24, "text-anchor": "end" };
  return [svg("text", { class: "edge-label inside", ...place }, perSecond(edge))];
}

const perSecond = (edge) => `${format.rate(edge.rows_per_s)}/s`;
