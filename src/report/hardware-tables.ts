/** The presets as Markdown tables: docs/hardware.md is made of them. */
import {
  collectivesBytes,
  contextBytes,
  type DevicePreset,
  devices,
  launchSeconds,
  reachedMemoryShare,
  reachedShare,
  usableBytes,
} from "../hardware/devices.ts";
import { drives } from "../hardware/drives.ts";
import type { Figure } from "../hardware/figure.ts";
import { links } from "../hardware/links.ts";
import { hostMemoryRateShare, hostMemoryShare, nodes } from "../hardware/nodes.ts";
import { machineOf, topologyOf } from "../hardware/presets.ts";
import { formatBinaryBytes, formatBytes, formatCount } from "./numbers.ts";
import { renderMarkdownTable } from "./table.ts";

const short = (value: number): string => String(Number(value.toPrecision(3)));
const gigabytes = (rate: number): string => String(Number((rate / 1e9).toPrecision(4)));
const teraflops = (rate: number): string => String(Number((rate / 1e12).toPrecision(4)));

/** The first column holds text, and so do some others by their names. */
function table(headers: readonly string[], rows: readonly (readonly string[])[]): string {
  const isText = (header: string, i: number): boolean => i === 0 || /source$|topology|drives|link/.test(header);
  const columns = headers.map((header, i) => ({ header, align: isText(header, i) ? "left" : "right" }) as const);
  return renderMarkdownTable({ columns, rows });
}

/** Sources that are the same for all presets are said once. */
const distinct = (figures: readonly Figure[]): string => [...new Set(figures.map(({ source }) => source))].join("; ");

function memoryTable(): string {
  return table(
    ["card", "label", "nvidia-smi, MiB", "reported", "addressable", "usable"],
    devices.map((device) => [
      device.name,
      formatBinaryBytes(device.nominal.value),
      formatCount(device.reported.value / 2 ** 20),
      formatBytes(device.reported.value),
      formatBytes(device.addressable.value),
      formatBytes(usableBytes(device)),
    ]),
  );
}

function rateTable(): string {
  return table(
    ["card", "fp32", "bf16", "fp16", "reached, bf16", "memory, GB/s", "host link", "source"],
    devices.map((device) => [
      device.name,
      teraflops(device.peak.fp32.value),
      bf16Text(device),
      teraflops(device.peak.fp16.value),
      teraflops(reachedShare[device.generation].value * device.peak.bf16.value),
      gigabytes(device.memoryRate.value),
      device.hostLink,
      device.peak.fp16.source,
    ]),
  );
}

/** Brackets where it is not in hardware. */
function bf16Text({ peak }: DevicePreset): string {
  const text = teraflops(peak.bf16.value);
  return peak.bf16.source === peak.fp16.source ? text : `(${text})`;
}

function shareTable(): string {
  const rows = Object.entries(reachedShare).map(([generation, { value, source }]) => [
    `${generation}, products and attention`,
    short(value),
    source,
  ]);
  return table(
    ["of the peak", "share", "source"],
    [...rows, ["a card's memory rate", short(reachedMemoryShare.value), reachedMemoryShare.source]],
  );
}

function linkTable(): string {
  return table(
    ["link", "peak, GB/s", "usable, GB/s", "first byte, µs"],
    links.map(({ name, nominal, usable, latency }) => [
      name,
      gigabytes(nominal.value),
      gigabytes(usable.value),
      short(latency.value * 1e6),
    ]),
  );
}

function linkSourceTable(): string {
  return table(
    ["link", "peak: source", "usable: source"],
    links.map(({ name, nominal, usable }) => [name, nominal.source, usable.source]),
  );
}

function driveTable(): string {
  return table(
    ["drive", "label read", "label write", "read", "write", "both at once", "label: source"],
    drives.map(({ name, nominal, usable }) => [
      name,
      ...[nominal.read, nominal.write, usable.read, usable.write, usable.mixed].map(({ value }) => gigabytes(value)),
      nominal.read.source,
    ]),
  );
}

function topologyTable(): string {
  return table(
    ["card", "topology"],
    devices.map(({ name }) => [name, topologyOf(machineOf({ device: name }))]),
  );
}

function nodeSourceTable(): string {
  return table(
    ["card", "node: source"],
    devices.map(({ name }) => [name, nodes[name].source]),
  );
}

function nodeTable(): string {
  return table(
    ["card", "host, GiB", "host, GB/s", "usable, GB/s", "to the host, GB/s", "to nodes, GB/s", "drives"],
    devices.map(({ name }) => {
      const { hostLink, networkLink, host, drive } = machineOf({ device: name });
      const node = nodes[name];
      return [
        name,
        formatCount(node.hostMemoryBytes / 2 ** 30),
        gigabytes(node.hostMemoryRate.value),
        gigabytes(host.memoryBytesPerSecond),
        gigabytes(hostLink.bytesPerSecond),
        gigabytes(networkLink.bytesPerSecond),
        `${drive.name}, ${formatBytes(drive.freeBytes)}`,
      ];
    }),
  );
}

/** All that presets hold, for docs/hardware.md. */
export function renderHardware(): string {
  return [
    "## Cards: memory",
    memoryTable(),
    `Reported: ${distinct(devices.map(({ reported }) => reported))}. ` +
      `Addressable: ${distinct(devices.map(({ addressable }) => addressable))}.\n` +
      `Usable: addressable less ${formatBinaryBytes(contextBytes.value)} of context (${contextBytes.source}) and ` +
      `${formatBinaryBytes(collectivesBytes.value)} of collectives\n(${collectivesBytes.source}).`,
    "## Cards: rates",
    rateTable(),
    "Dense TFLOP/s. In brackets: bf16 is not in that hardware, and is computed at the fp32 rate. " +
      `An op takes at least ${short(launchSeconds.value * 1e6)} µs\n(${launchSeconds.source}).`,
    shareTable(),
    "## Links",
    linkTable(),
    linkSourceTable(),
    `First byte: ${distinct(links.map(({ latency }) => latency)).replaceAll("; ", ";\n")}.`,
    "## Drives",
    driveTable(),
    `GB/s. Read and write: ${drives[0]!.usable.read.source}.\nBoth at once: ${drives[0]!.usable.mixed.source}.`,
    "## Nodes",
    topologyTable(),
    nodeTable(),
    nodeSourceTable(),
    `Of host memory ${short(hostMemoryShare.value)} is usable (${hostMemoryShare.source}).\n` +
      `The rate is that of all channels; usable is ${short(hostMemoryRateShare.value)} of it\n(${hostMemoryRateShare.source}).`,
  ].join("\n\n");
}
