// The page's life: ask for the job every two seconds while someone looks, and show what came or why nothing did.

import * as api from "./api.js";
import * as chart from "./chart.js";
import { byId, say } from "./dom.js";
import * as format from "./format.js";
import * as logs from "./logs.js";
import * as operators from "./operators.js";
import * as panels from "./panels.js";
import * as savepoint from "./savepoint.js";
import * as series from "./series.js";
import * as token from "./token.js";

const REFRESH_MS = 2000;
const ENDING = ["STOPPING", "FINISHED", "FAILED"];
const REFUSED = "The token was refused: it is wrong, or belongs to another job or attempt.";

let checkpoints = [];
let recoveries = [];
let picked = null;
let answeredAt = null;
let timer = null;
let asking = false;

async function refresh() {
  clearTimeout(timer);
  if (!token.read()) return askForToken("This page has no token yet.");
  if (asking) return undefined;
  asking = true;
  const used = token.read();
  try {
    const paths = ["/v1/status", "/v1/checkpoints", "/v1/graph"];
    const [status, history, graph] = await Promise.all(paths.map(api.get));
    answeredAt = Date.now();
    show(status, history);
    operators.show(graph);
    await Promise.all([series.refresh(recoveries), logs.refresh(status)]);
  } catch (failure) {
    if (failure.status === 401 && token.read() === used) return askForToken(REFUSED);
    lost(failure);
  } finally {
    asking = false;
  }
  if (!document.hidden) timer = setTimeout(refresh, REFRESH_MS);
  return undefined;
}

function show(status, history) {
  checkpoints = history;
  recoveries = status.recoveries;
  byId("ask").hidden = true;
  byId("job").hidden = false;
  const failed = status.phase === "FAILED" && status.last_failure;
  say(byId("banner"), failed ? `${status.last_failure.reason}: ${status.last_failure.message}` : "", "banner bad");
  panels.header(status);
  panels.tiles(status);
  panels.progress(status);
  panels.checkpointTable(status, checkpoints);
  panels.slots(status);
  panels.metrics(status);
  panels.recoveries(status);
  panels.savepoints(checkpoints);
  panels.about(status);
  savepoint.enable(ENDING.includes(status.phase));
  drawChart();
  freshness();
}

function drawChart() {
  const place = byId("chart");
  if (place.clientWidth) place.replaceChildren(chart.draw(checkpoints, place.clientWidth, pick));
  readOut();
}

function pick(one) {
  picked = one;
  readOut();
}

function readOut() {
  const one = picked ?? checkpoints.at(-1);
  byId("readout").textContent = one ? chart.describe(one) : "No checkpoint yet.";
}

function askForToken(why) {
  token.forget();
  byId("job").hidden = true;
  byId("phase").hidden = true;
  byId("job-name").textContent = "sparkstate";
  byId("job-facts").textContent = "";
  byId("freshness").textContent = "";
  document.title = "sparkstate";
  say(byId("banner"), "");
  byId("ask-why").textContent = why;
  byId("ask").hidden = false;
  byId("token").focus();
}

function lost(failure) {
  const ours = !(failure instanceof api.ApiError);
  if (ours) return say(byId("banner"), `The page itself failed: ${failure}`, "banner bad");
  const seen = answeredAt ? ` What is shown was true at ${format.time(answeredAt)}.` : "";
  const remedy = failure.remedy ? ` (${failure.remedy})` : "";
  const text = failure.status
    ? `${failure.message}${remedy}.${seen}`
    : `The driver does not answer: ${failure.message}. It may have ended or be starting again.${seen} Trying again.`;
  say(byId("banner"), text, "banner wait");
  return freshness();
}

function freshness() {
  if (answeredAt) byId("freshness").textContent = `updated ${format.time(answeredAt)}`;
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token.keep(byId("token").value);
  byId("token").value = "";
  refresh();
});
savepoint.bind(refresh);
addEventListener("hashchange", () => token.takeFromAddress() && refresh());
document.addEventListener("visibilitychange", () => document.hidden || refresh());
byId("logs").addEventListener("toggle", refresh);
byId("log-source").addEventListener("change", () => {
  logs.turn();
  refresh();
});
new ResizeObserver(drawChart).observe(byId("chart"));
new ResizeObserver(operators.drawPicture).observe(byId("graph"));
new ResizeObserver(() => series.draw(recoveries)).observe(byId("series-charts"));

token.takeFromAddress();
refresh();
