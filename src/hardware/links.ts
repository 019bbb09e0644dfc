/** Ways for bytes: what their standard carries in one direction, what a large transfer reaches of it, and how long the first byte takes. */
import { type Figure, figure } from "./figure.ts";

export type LinkName =
  | `PCIe ${3 | 4 | 5} ${"x8" | "x16"}`
  | `NVLink ${2 | 3 | 4}`
  | "NVLink bridge"
  | `${10 | 25 | 100} Gbit Ethernet`
  | "InfiniBand EDR 100"
  | "InfiniBand HDR 200"
  | "InfiniBand NDR 400";

export type LinkKind = "PCIe" | "NVLink" | "network";

export interface LinkPreset {
  readonly name: LinkName;
  readonly alsoCalled: readonly string[];
  readonly kind: LinkKind;
  /** Payload in bytes per second and direction: nothing gets more through. */
  readonly nominal: Figure;
  /** What a large transfer reaches. */
  readonly usable: Figure;
  readonly latency: Figure;
}

const pcieLatency = figure(10e-6, "the usual time of a small copy between device and host");

/** @param gigatransfers per second and lane; 128 of 130 bits are payload */
function pcie(generation: 3 | 4 | 5, gigatransfers: number, usable: Figure): LinkPreset[] {
  return ([8, 16] as const).map((lanes) => ({
    name: `PCIe ${generation} x${lanes}` as const,
    alsoCalled: [`PCIe gen${generation} x${lanes}`, `PCIe ${generation}.0 x${lanes}`],
    kind: "PCIe",
    nominal: figure((gigatransfers * 1e9 * lanes * 128) / 130 / 8, `${gigatransfers} GT/s, ${lanes} lanes, 128b/130b`),
    usable: lanes === 16 ? usable : figure(usable.value / 2, "half of x16"),
    latency: pcieLatency,
  }));
}

function nvlink(name: LinkName, links: number, sheet: string, usable: Figure): LinkPreset {
  return {
    name,
    alsoCalled: [],
    kind: "NVLink",
    nominal: figure(links * 25e9, `${links} links of 25 GB/s, ${sheet}`),
    usable,
    latency: figure(5e-6, "the usual time of a small collective's hop"),
  };
}

/** Of `gigabits` per second; protocols take the rest. */
function network(
  name: LinkName,
  gigabits: number,
  share: Figure,
  latency: Figure,
  alsoCalled: readonly string[],
): LinkPreset {
  const nominal = (gigabits / 8) * 1e9;
  return {
    name,
    alsoCalled,
    kind: "network",
    nominal: figure(nominal, `${gigabits} Gbit/s by the standard`),
    usable: figure(share.value * nominal, share.source),
    latency,
  };
}

const overTcp = figure(0.88, "88 %: TCP over large frames, and NCCL's part");
const overRdma = figure(0.92, "92 %: point-to-point tests of the adapters");
const tcpLatency = figure(50e-6, "the usual half round trip through the kernel's network");
const rdmaLatency = figure(10e-6, "the usual time of a small message between cards of two nodes");

export const links: readonly LinkPreset[] = [
  ...pcie(3, 8, figure(12e9, "ZeRO-Infinity: 12 GB/s for one card alone")),
  ...pcie(4, 16, figure(25e9, "copies from pinned memory")),
  ...pcie(5, 32, figure(50e9, "copies from pinned memory; peers 50 to 56 GB/s")),
  nvlink("NVLink 2", 6, "V100 data sheet", figure(120e9, "80 %, as of NVLink 4")),
  nvlink("NVLink 3", 12, "A100 data sheet", figure(235e9, "bus bandwidth of nccl-tests on 8 cards")),
  nvlink("NVLink 4", 18, "H100 data sheet", figure(360e9, "80 %: NCCL's protocol takes about 20 %, its authors say")),
  {
    name: "NVLink bridge",
    alsoCalled: ["NVLink 3 bridge"],
    kind: "NVLink",
    nominal: figure(56.25e9, "112.5 GB/s both ways, A40 data sheet"),
    usable: figure(45e9, "80 %, as of NVLink 4"),
    latency: figure(5e-6, "the usual time of a small collective's hop"),
  },
  network("10 Gbit Ethernet", 10, overTcp, tcpLatency, ["10GbE", "Ethernet 10"]),
  network("25 Gbit Ethernet", 25, overTcp, tcpLatency, ["25GbE", "Ethernet 25"]),
  network("100 Gbit Ethernet", 100, overTcp, tcpLatency, ["100GbE", "Ethernet 100"]),
  network("InfiniBand EDR 100", 100, overRdma, rdmaLatency, ["EDR", "InfiniBand EDR", "InfiniBand 100"]),
  network("InfiniBand HDR 200", 200, overRdma, rdmaLatency, ["HDR", "InfiniBand HDR", "InfiniBand 200"]),
  network("InfiniBand NDR 400", 400, overRdma, rdmaLatency, ["NDR", "InfiniBand NDR", "InfiniBand 400"]),
];

const byName: ReadonlyMap<LinkName, LinkPreset> = new Map(links.map((link) => [link.name, link]));

/** Of a name that the type has, so that it is there. */
export const linkNamed = (name: LinkName): LinkPreset => byName.get(name)!;
