/** Links, networks and drives that are given instead of a preset's: by name, by rate, or both. */
import { UsageError } from "../errors/errors.ts";
import { type DrivePreset, drives } from "./drives.ts";
import { type LinkKind, type LinkPreset, links } from "./links.ts";
import type { Link } from "./machine.ts";
import { findPreset, presetNamed } from "./names.ts";
import { rateText, rateWanted, readRate } from "./rate.ts";

export interface GivenLink extends Link {
  readonly kind: LinkKind;
}

export const usualLink = ({ name, kind, usable, latency }: LinkPreset): GivenLink => ({
  name,
  kind,
  bytesPerSecond: usable.value,
  latencySeconds: latency.value,
});

/**
 * "NVLink 3", "25GB/s" (of the link that is there), or "PCIe 3 x8 @ 6GB/s".
 * @param what "host link", as messages call it
 * @throws UsageError for a name or rate that is none, and for a rate that the link cannot carry
 */
export function givenLink(what: string, text: string, kinds: readonly LinkKind[], present: LinkPreset): GivenLink {
  const { link, rate } = readLink(what, text, kinds);
  const preset = link ?? present;
  if (rate === undefined) return usualLink(preset);
  if (rate > preset.nominal.value) throw new UsageError(tooFast(what, preset, rate, kinds));
  return { ...usualLink(preset), name: `${preset.name} at ${rateText(rate)}`, bytesPerSecond: rate };
}

/** The same for the network, where a bare rate is that of an adapter which no preset needs to have. */
export function givenNetwork(text: string, present: LinkPreset): GivenLink {
  const { link, rate } = readLink("network link", text, ["network"]);
  if (link !== undefined || rate === undefined) return givenLink("network link", text, ["network"], present);
  return { ...usualLink(present), name: `network of ${rateText(rate)}`, bytesPerSecond: rate };
}

function readLink(
  what: string,
  text: string,
  kinds: readonly LinkKind[],
): { link: LinkPreset | undefined; rate: number | undefined } {
  const [before = "", after] = text.split("@");
  const possible = links.filter(({ kind }) => kinds.includes(kind));
  if (after === undefined) {
    const rate = readRate(before);
    return { rate, link: rate === undefined ? findPreset(what, before, possible) : undefined };
  }
  const rate = readRate(after);
  if (rate === undefined) throw new UsageError(`${what} "${text}": found "${after.trim()}"; wanted ${rateWanted}`);
  return { rate, link: findPreset(what, before, possible) };
}

function tooFast(what: string, { name, nominal }: LinkPreset, rate: number, kinds: readonly LinkKind[]): string {
  const sibling = /^PCIe \d x8$/.test(name) ? presetNamed(name.replace("x8", "x16"), links) : undefined;
  const carriers = links.filter((link) => kinds.includes(link.kind) && link.nominal.value >= rate);
  const slowest = sibling ?? carriers.sort((a, b) => a.nominal.value - b.nominal.value)[0];
  const why =
    sibling !== undefined && rate <= sibling.nominal.value
      ? `: that is a figure of ${sibling.name} (${rateText(sibling.nominal.value)})`
      : slowest !== undefined && slowest.nominal.value >= rate
        ? `; the slowest that does is ${slowest.name} (${rateText(slowest.nominal.value)})`
        : "";
  return (
    `${what}: ${name} peaks at ${rateText(nominal.value)} in one direction, so it cannot carry ${rateText(rate)}${why}. ` +
    `Give at most ${rateText(nominal.value)}, or name another link (docs/hardware.md lists all)`
  );
}

/** "8x InfiniBand HDR 200" is a thing and how many of it; one where no number is given. */
export function countedText(what: string, text: string): { count: number; text: string } {
  const match = /^\s*(\d+)\s*x\s+(.+)$/i.exec(text);
  if (match === null) return { count: 1, text };
  const count = Number(match[1]);
  if (count < 1 || count > 64) throw new UsageError(`${what} "${text}": found ${count} of them; wanted from 1 to 64`);
  return { count, text: match[2]! };
}

export type DriveRates = Readonly<Record<"read" | "write" | "mixed", number>>;

/** "NVMe PCIe 4", or "5GB/s" for reads, writes and both at once. @throws UsageError */
export function givenDrive(text: string): { readonly name: string; readonly rates: DriveRates } {
  const rate = readRate(text);
  if (rate === undefined) return usualDrive(findPreset("drive", text, drives));
  return { name: `drive of ${rateText(rate)}`, rates: { read: rate, write: rate, mixed: rate } };
}

export const usualDrive = ({ name, usable }: DrivePreset): { readonly name: string; readonly rates: DriveRates } => ({
  name,
  rates: { read: usable.read.value, write: usable.write.value, mixed: usable.mixed.value },
});
