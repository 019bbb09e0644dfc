/** Cards by the capacity that PyTorch prints, which is less than the label. */
import { type DeviceName, devices } from "../hardware/devices.ts";

/** Between what programs can ask for and what the driver reports, and a little below: drivers differ. */
interface KnownCard {
  readonly label: string;
  /** Of which figures are known; the others of the label have the same chips. */
  readonly like: DeviceName;
}

/** Ranges are those of public reports. */
interface OtherCard {
  readonly label: string;
  readonly leastGib: number;
  readonly mostGib: number;
}

const cards: readonly (KnownCard | OtherCard)[] = [
  { label: "8 GB (RTX 2070, 3070)", leastGib: 7.5, mostGib: 8 },
  { label: "11 GB (GTX 1080 Ti, RTX 2080 Ti, half a K80)", leastGib: 10.5, mostGib: 11.3 },
  { label: "12 GB (RTX 3060, 4070)", leastGib: 11.6, mostGib: 12 },
  { label: "16 GB (T4)", like: "T4" },
  { label: "16 GB (V100, P100, RTX 4080)", like: "V100-16GB" },
  { label: "24 GB (A10, A10G, L4)", like: "A10G" },
  { label: "24 GB (RTX 3090, 4090, TITAN RTX)", like: "RTX 3090" },
  { label: "32 GB (V100, RTX 5090)", like: "V100-32GB" },
  { label: "40 GB (A100)", like: "A100-40GB" },
  { label: "48 GB (A40, L40, L40S)", like: "A40" },
  { label: "48 GB (RTX A6000, RTX 6000 Ada)", like: "A6000" },
  { label: "64 GB (half an MI250X)", leastGib: 63.5, mostGib: 64 },
  { label: "80 GB (A100, A800, H100, H800)", like: "A100-80GB" },
  { label: "94 or 96 GB (H100 NVL, H20)", leastGib: 92.9, mostGib: 96 },
  { label: "141 GB (H200)", like: "H200" },
  { label: "192 GB (MI300X, B200)", leastGib: 177, mostGib: 192 },
];

const leastShare = 0.985;

function rangeOf(card: KnownCard | OtherCard): readonly [leastBytes: number, mostBytes: number] {
  if (!("like" in card)) return [card.leastGib * 2 ** 30, card.mostGib * 2 ** 30];
  const { addressable, reported } = devices.find(({ name }) => name === card.like)!;
  return [leastShare * addressable.value, reported.value];
}

/** "24 GB (A10, A10G, L4)"; undefined for a capacity that is no whole card's. */
export function cardOf(capacityBytes: number): string | undefined {
  const isIn = ([least, most]: readonly [number, number]): boolean => capacityBytes >= least && capacityBytes <= most;
  return cards.find((card) => isIn(rangeOf(card)))?.label;
}
