/** Cards by the capacity that PyTorch prints, which is less than the label. Ranges are those of public reports. */

interface CardRange {
  readonly label: string;
  readonly leastGib: number;
  readonly mostGib: number;
}

const cards: readonly CardRange[] = [
  { label: "8 GB (RTX 2070, 3070)", leastGib: 7.5, mostGib: 8 },
  { label: "11 GB (GTX 1080 Ti, RTX 2080 Ti, half a K80)", leastGib: 10.5, mostGib: 11.3 },
  { label: "12 GB (RTX 3060, 4070)", leastGib: 11.6, mostGib: 12 },
  { label: "16 GB (T4)", leastGib: 14.4, mostGib: 14.9 },
  { label: "16 GB (V100, P100, RTX 4080)", leastGib: 15.5, mostGib: 16 },
  { label: "24 GB (A10, A10G, L4)", leastGib: 21.8, mostGib: 22.6 },
  { label: "24 GB (RTX 3090, 4090, TITAN RTX)", leastGib: 23.4, mostGib: 24 },
  { label: "32 GB (V100, RTX 5090)", leastGib: 31, mostGib: 32 },
  { label: "40 GB (A100)", leastGib: 39, mostGib: 40 },
  { label: "48 GB (A40, L40, L40S)", leastGib: 44, mostGib: 45.2 },
  { label: "48 GB (RTX A6000, RTX 6000 Ada)", leastGib: 47, mostGib: 48 },
  { label: "64 GB (half an MI250X)", leastGib: 63.5, mostGib: 64 },
  { label: "80 GB (A100, A800, H100, H800)", leastGib: 78.9, mostGib: 80 },
  { label: "94 or 96 GB (H100 NVL, H20)", leastGib: 92.9, mostGib: 96 },
  { label: "141 GB (H200)", leastGib: 139, mostGib: 141 },
  { label: "192 GB (MI300X, B200)", leastGib: 177, mostGib: 192 },
];

/** "24 GB (A10, A10G, L4)"; undefined for a capacity that is no whole card's. */
export const cardOf = (capacityBytes: number): string | undefined =>
  cards.find(({ leastGib, mostGib }) => capacityBytes >= leastGib * 2 ** 30 && capacityBytes <= mostGib * 2 ** 30)
    ?.label;
