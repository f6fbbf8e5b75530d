// Numbers and times as a person reads them. Null and undefined become a dash.

export const DASH = "–";
const LOCALE = "en-GB";
const number = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 6 });
const clockTime = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dateTime = new Intl.DateTimeFormat(LOCALE, {
  year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const MAX_DATE_MS = 8.64e15; // what a JavaScript date can hold; watermarks can lie outside

const orDash = (write) => (value) => (value === null || value === undefined ? DASH : write(value));
const orDashDate = (write) => orDash((ms) => (Math.abs(ms) <= MAX_DATE_MS ? write(ms) : DASH));
const digits = (value) => (value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1));

export const count = orDash((value) => number.format(value));
export const value = orDash((any) => precise.format(any));
export const rate = orDash((value) => (value >= 10 || value === 0 ? number.format(value) : value.toFixed(1)));
export const time = orDashDate((ms) => clockTime.format(ms));
export const moment = orDashDate((ms) => dateTime.format(ms));

/** Event time, which belongs to the data and not to the place where someone looks. */
export const eventTime = orDashDate((ms) => `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`);

export const bytes = orDash((value) => {
  let power = 0;
  for (; value >= 1024 && power < UNITS.length - 1; power += 1) value /= 1024;
  return `${digits(value)} ${UNITS[power]}`;
});

export const duration = orDash((ms) => {
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${number.format(seconds / 86400)} days`;
});

/** The largest unit only. */
export const age = orDash((ms) => {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
});

/** Runs of whole numbers: 0,1,2,5 → "0–2, 5". */
export function runs(values) {
  const found = [];
  for (const value of values) {
    const last = found.at(-1);
    if (last && value === last[1] + 1) last[1] = value;
    else found.push([value, value]);
  }
  return found.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ") || DASH;
}
