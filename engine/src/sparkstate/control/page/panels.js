// From documents to elements; each function fills one part of the page.

import { byId, html, say } from "./dom.js";
import * as format from "./format.js";

const END_OF_INPUT = 2 ** 62; // JavaScript cannot hold 2^63 - 1 exactly; nothing real comes near
const EVENTS_SHOWN = 10;
const PHASES = { RUNNING: "good", FINISHED: "good", FAILED: "bad" };
const STATUSES = { COMPLETED: "good", FAILED: "bad", IN_PROGRESS: "wait", PENDING: "wait" };

/** Name, phase and identity. */
export function header(status) {
  const name = `${status.namespace}/${status.name}`;
  document.title = `${status.name} · ${status.phase.toLowerCase()} · sparkstate`;
  byId("job-name").textContent = name;
  const facts = [`attempt ${status.attempt}`];
  if (status.incarnation !== null) facts.push(`incarnation ${status.incarnation}`);
  if (status.backend) facts.push(status.backend);
  if (status.started_ms !== null) facts.push(`up ${format.duration(Date.now() - status.started_ms)}`);
  byId("job-facts").textContent = facts.join(" · ");
  say(byId("phase"), status.phase, `phase ${PHASES[status.phase] ?? "wait"}`);
}

/** The figures at a glance. */
export function tiles(status) {
  const last = status.last_checkpoint;
  const ended = status.watermark_ms !== null && status.watermark_ms > END_OF_INPUT;
  const watermark = ended ? "the input has ended" : format.eventTime(status.watermark_ms);
  const slots = status.slots.length === 1 ? "1 slot" : `${status.slots.length} slots`;
  const entries = [
    ["Epoch", format.count(status.epoch), `${format.count(status.rows_total)} rows`],
    ["Rows per second", format.rate(status.rows_per_s), "into keyed operators"],
    ["Watermark lag", ended ? format.DASH : format.duration(status.lag_ms),
      status.watermark_ms === null ? "no watermark yet" : watermark],
    ["State", format.bytes(status.state_bytes), `in ${slots}`],
    ["Last checkpoint", last ? `${format.age(Date.now() - last.trigger_ms)} ago` : format.DASH,
      last ? `number ${last.id}, epoch ${format.count(last.epoch)}` : "none yet"],
    ["Restarts", format.count(status.restarts), status.restarts ? "after failures" : "no failure"],
  ];
  byId("tiles").replaceChildren(
    ...entries.map(([name, value, more]) =>
      html("div", { "data-tile": name }, html("dt", {}, name), html("dd", {}, value, html("small", {}, more))),
    ),
  );
}

/** Long work under way, with what is left of it. */
export function progress(status) {
  byId("progress").hidden = !status.progress.length;
  byId("progress-list").replaceChildren(...status.progress.map(work));
}

function work(one) {
  const name = one.kind === "restore" ? restoring(one) : `Storing savepoint ${one.name}`;
  const left = one.left_ms === null ? "" : `, ${format.duration(one.left_ms)} left`;
  const text = `${format.bytes(one.done_bytes)} of ${format.bytes(one.total_bytes)}${left}`;
  const max = Math.max(one.total_bytes, 1);
  const bar = html("progress", { max, value: Math.min(one.done_bytes, max), "aria-label": `${name}: ${text}` });
  return html("li", { "data-progress": one.kind }, html("p", {}, name, html("span", { class: "took" }, text)), bar);
}

/** A restore into another number of slots is the long part of a rescale. */
function restoring({ slots_before: before, slots_after: after }) {
  return after === null ? "Restoring the state" : `Rescaling from ${before} to ${after} slots: restoring the state`;
}

/** Counts beside the chart, and the chart as a table, newest first. */
export function checkpointTable(status, checkpoints) {
  const counts = [`${format.count(status.checkpoints_completed)} completed`];
  if (status.checkpoints_failed) counts.push(`${format.count(status.checkpoints_failed)} failed`);
  if (status.checkpoints_in_progress) counts.push(`${format.count(status.checkpoints_in_progress)} in progress`);
  byId("checkpoint-counts").textContent = counts.join(", ");
  byId("checkpoint-rows").replaceChildren(...checkpoints.toReversed().map(checkpointRow));
}

function checkpointRow(one) {
  const number = (text) => html("td", { class: "num" }, text);
  return html(
    "tr", {},
    html("td", {}, `${one.id}`), html("td", {}, one.kind),
    html("td", {}, html("span", { class: `tag ${STATUSES[one.status]}`, title: one.failure }, one.status)),
    html("td", {}, format.moment(one.trigger_ms)), number(format.count(one.epoch)),
    number(format.duration(one.duration_ms)), number(format.duration(one.sync_pause_ms)),
    number(format.bytes(one.state_bytes)), number(format.bytes(one.uploaded_bytes)),
  );
}

/** One row per slot, state against the largest slot and memory against its budget. */
export function slots(status) {
  const largest = Math.max(1, ...status.slots.map((slot) => slot.state_bytes));
  const none = html("tr", {}, html("td", { class: "muted", colspan: 7 }, "No slot yet."));
  const rows = status.slots.map((slot) => slotRow(slot, largest));
  byId("slot-rows").replaceChildren(...(rows.length ? rows : [none]));
}

function slotRow(slot, largest) {
  const process = slot.pid === null ? format.DASH : `${slot.host ?? ""} pid ${slot.pid}`.trim();
  const life = slot.alive ? null : html("span", { class: "tag bad" }, "gone");
  return html(
    "tr", { "data-slot": slot.index },
    html("td", {}, `${slot.index} `, life), html("td", {}, process),
    html("td", {}, format.runs(slot.shards)), html("td", { class: "num" }, format.count(slot.rows)),
    html("td", {}, meter([["state", slot.state_bytes]], largest, "State"), under(format.bytes(slot.state_bytes))),
    html("td", {}, ...memory(slot.memory), ...operatorState(slot.memory)),
    html("td", { class: "num" }, format.bytes(slot.rss_bytes)),
  );
}

const under = (text) => html("p", { class: "under" }, text);

function memory(used) {
  const parts = [["cache", used.cache], ["buffers", used.write_buffers], ["tables", used.tables]];
  const sum = used.cache + used.write_buffers + used.tables;
  if (!used.budget) return [under(`${format.bytes(sum)}, without a budget`)];
  const share = Math.round((100 * sum) / used.budget);
  const text = `${format.bytes(sum)} of ${format.bytes(used.budget)} (${share} %)`;
  return [meter(parts, used.budget, "Memory"), under(text)];
}

/** Operator state has a limit of its own, beside that of the state backend. */
function operatorState(used) {
  if (!used.operator_state) return [];
  const limit = used.operator_state_limit ? ` of ${format.bytes(used.operator_state_limit)}` : "";
  return [under(`operator state ${format.bytes(used.operator_state)}${limit}`)];
}

function meter(parts, whole, label) {
  const sum = parts.reduce((total, [, value]) => total + value, 0);
  const over = sum > whole;
  const bar = html("div", {
    class: over ? "meter over" : "meter", role: "meter", "aria-label": label, "aria-valuemin": 0,
    "aria-valuemax": whole, "aria-valuenow": Math.min(sum, whole),
    "aria-valuetext": `${format.bytes(sum)} of ${format.bytes(whole)}`,
  });
  for (const [name, value] of parts) {
    const piece = html("i", { class: name, title: `${name}: ${format.bytes(value)}` });
    piece.style.width = `${(100 * value) / Math.max(whole, sum)}%`;
    bar.append(piece);
  }
  if (over) {
    const end = html("i", { class: "end", title: `budget: ${format.bytes(whole)}` });
    end.style.left = `${(100 * whole) / sum}%`;
    bar.append(end);
  }
  return bar;
}

/** What the job's functions count by themselves; the card is there when they do. */
export function metrics(status) {
  byId("metrics").hidden = !status.user_metrics.length;
  byId("metric-rows").replaceChildren(...status.user_metrics.map((one) => html(
    "tr", { "data-metric": `${one.operator}/${one.name}` },
    html("td", {}, one.operator), html("td", {}, one.name), html("td", {}, one.kind),
    html("td", { class: "num" }, metricValue(one)),
  )));
}

function metricValue(one) {
  const value = format.value;
  const range = one.least === one.largest ? value(one.least) : `${value(one.least)} to ${value(one.largest)}`;
  if (one.kind === "counter") return value(one.count);
  if (one.kind === "gauge") return range;
  if (one.kind === "meter") return `${value(one.count)}, ${format.rate(one.rate)} per second`;
  if (!one.count) return "no value yet";
  return `${value(one.count)} values of ${range}, ${value(one.sum === null ? null : one.sum / one.count)} on average`;
}

/** Newest first. */
export function recoveries(status) {
  const restarts = status.restarts === 1 ? "1 restart" : `${format.count(status.restarts)} restarts`;
  byId("restarts").textContent = status.restarts ? `${restarts} in this driver's life` : "";
  const items = status.recoveries.toReversed().map((one) => {
    const took = one.duration_ms === null ? "under way" : `took ${format.duration(one.duration_ms)}`;
    const source = one.restored_from ?? (one.duration_ms === null ? null : "an empty state");
    return event(one.at_ms, took, one.cause, `incarnation ${one.incarnation}${source ? `, from ${source}` : ""}`);
  });
  list(byId("recoveries"), items, "No recovery: nothing has failed.");
}

/** Newest first. */
export function savepoints(checkpoints) {
  const items = checkpoints.filter((one) => one.kind === "savepoint").toReversed().map((one) => {
    const took = one.duration_ms === null ? "" : `took ${format.duration(one.duration_ms)}`;
    const more = `epoch ${format.count(one.epoch)}, ${format.bytes(one.state_bytes)}`;
    return event(one.trigger_ms, took, one.failure ?? one.path ?? "in progress", more, one.status);
  });
  list(byId("savepoints"), items, "No savepoint yet.");
}

function event(at, took, text, more, status) {
  const tag = status ? html("span", { class: `tag ${STATUSES[status]}` }, status) : null;
  return html(
    "li", {},
    html("div", { class: "when" }, format.moment(at), tag, html("span", { class: "took" }, took)),
    html("p", {}, text), html("p", {}, more),
  );
}

function list(element, items, none) {
  const shown = items.slice(0, EVENTS_SHOWN);
  const more = items.length ? `and ${items.length - shown.length} earlier` : none;
  if (items.length === shown.length && items.length) return element.replaceChildren(...shown);
  return element.replaceChildren(...shown, html("li", { class: "muted" }, more));
}

/** What does not change often. */
export function about(status) {
  const failure = status.last_failure;
  const entries = [
    ["Job uid", status.job_uid], ["Lineage", status.lineage], ["Restored from", status.restored_from],
    ...status.sinks.map((sink) => ["Sink", sink]),
    ["Last failure", failure && `${format.moment(failure.at_ms)}: ${failure.reason}: ${failure.message}`],
    ...status.storage_away.map((place) => ["Storage away",
      `${place.url}, since ${format.moment(place.since_ms)}, needed to ${place.doing}: ${place.message}`]),
    ...status.notices.map((notice) => ["Notice", notice]),
  ].filter(([, value]) => value);
  byId("about").replaceChildren(...entries.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]));
}
