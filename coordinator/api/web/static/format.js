// Numbers as the commands write them. `quantity` and `span` follow shared/units/quantity.py and
// shared/units/times.py to the digit; a test compares them.

const SIZES = ["memory", "ephemeral-storage", "hugepages-"];
const WHOLE = ["memory", "ephemeral-storage", "pods", "storage"];
const BINARY = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];

export function count(number) {
  return number.toLocaleString("en-US");
}

// One decimal, ties to even as in Python: toFixed rounds ties up.
function oneDecimal(value) {
  const tenths = value * 10;
  const floor = Math.floor(tenths);
  const tie = tenths - floor === 0.5;
  const rounded = tie ? floor + (floor % 2 === 0 ? 0 : 1) : Math.round(tenths);
  return (rounded / 10).toFixed(1).replace(/\.0$/, "");
}

function roundEven(value) {
  const floor = Math.floor(value);
  return value - floor === 0.5 ? floor + (floor % 2 === 0 ? 0 : 1) : Math.round(value);
}

// Units of a resource in one whole, e.g. 1000 in a core.
export function unitOf(resource) {
  if (WHOLE.includes(resource) || resource.startsWith("hugepages-")) return 1;
  if (/^(requests|limits)\./.test(resource)) return unitOf(resource.replace(/^[a-z]+\./, ""));
  return resource.endsWith("/requests.storage") ? 1 : 1000;
}

export function quantity(resource, amount) {
  const whole = roundEven(amount);
  if (SIZES.some((name) => resource.startsWith(name))) {
    const size = BINARY.find(([, units]) => Math.abs(whole) >= units);
    return size ? oneDecimal(whole / size[1]) + size[0] : String(whole);
  }
  const unit = unitOf(resource);
  if (whole % unit === 0) return String(whole / unit);
  return Math.abs(whole) < unit ? `${whole}m` : String(whole / unit);
}

// The last part of a resource's name, as queue list shows it: nvidia.com/gpu is gpu.
export function shortName(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

const two = (large, unit, small, part) => `${large}${unit}${small ? small + part : ""}`;

export function span(seconds) {
  const whole = Math.max(0, Math.trunc(seconds));
  const [minutes, hours, days] = [60, 3600, 86400].map((size) => Math.floor(whole / size));
  if (whole < 120) return `${whole}s`;
  if (minutes < 10) return two(minutes, "m", whole % 60, "s");
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return two(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return two(days, "d", hours % 24, "h");
  if (days < 730) return `${days}d`;
  return days < 2920 ? two(Math.floor(days / 365), "y", days % 365, "d") : `${Math.floor(days / 365)}y`;
}

// A part of a receipt: to the millisecond, so that shown parts sum to their shown total.
export function exact(milliseconds) {
  const words = [];
  let rest = milliseconds;
  for (const [size, name] of [[86400000, "d"], [3600000, "h"], [60000, "min"]]) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number || words.length) words.push(`${number} ${name}`);
  }
  words.push(`${Math.floor(rest / 1000)}.${String(rest % 1000).padStart(3, "0")} s`);
  return words.join(" ");
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

// As `plural` of the commands, without the comma that they leave out too.
export function plain(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

// Seconds since 1970 as a time of day in UTC, like the commands.
export function clock(seconds) {
  return `${new Date(seconds * 1000).toISOString().slice(11, 19)}Z`;
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)}%` : "0%";
}

// `Unschedulable 12, WaitingForQuota 3`: most jobs first, as the commands have it.
export function reasons(counts, most) {
  const order = Object.entries(counts).sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return order.slice(0, most).map(([reason, number]) => `${reason} ${count(number)}`).join(", ");
}
