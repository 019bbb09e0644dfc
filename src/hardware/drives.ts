/** Drives for what goes to disk. `shunya bench disk` measures real ones. */
import { type Figure, figure } from "./figure.ts";

export type DriveName = `NVMe PCIe ${3 | 4 | 5}`;

export interface DrivePreset {
  readonly name: DriveName;
  readonly alsoCalled: readonly string[];
  /** Bytes per second on the label, of long reads or writes. */
  readonly nominal: { readonly read: Figure; readonly write: Figure };
  /** What unbuffered requests reach over hours; `mixed` of as many bytes read as written, together. */
  readonly usable: { readonly read: Figure; readonly write: Figure; readonly mixed: Figure };
}

const reached = figure(0.8, "80 % of the label: an assumption, since drives slow down when they are full and warm");

function nvme(generation: 3 | 4 | 5, read: number, write: number, sheet: string): DrivePreset {
  const usable = (rate: number): Figure => figure(reached.value * rate, reached.source);
  return {
    name: `NVMe PCIe ${generation}`,
    alsoCalled: [`NVMe ${generation}`, `NVMe gen${generation}`],
    nominal: { read: figure(read, sheet), write: figure(write, sheet) },
    usable: {
      read: usable(read),
      write: usable(write),
      mixed: figure(
        (reached.value * 2 * read * write) / (read + write),
        "reads and writes take turns: the harmonic mean of both",
      ),
    },
  };
}

export const drives: readonly DrivePreset[] = [
  nvme(3, 3.2e9, 2.0e9, "Samsung PM983 data sheet"),
  nvme(4, 6.8e9, 4.0e9, "Samsung PM9A3 data sheet"),
  nvme(5, 14.0e9, 7.1e9, "Samsung PM1743 data sheet"),
];

const byName: ReadonlyMap<DriveName, DrivePreset> = new Map(drives.map((drive) => [drive.name, drive]));

/** Of a name that the type has, so that it is there. */
export const driveNamed = (name: DriveName): DrivePreset => byName.get(name)!;
