import { expect, test } from "vitest";
import {
  formatBinaryBytes,
  formatBytes,
  formatCount,
  formatDuration,
  formatFineBytes,
  formatOperations,
  formatReal,
  formatShare,
} from "../../src/report/numbers.ts";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.00 KB"],
  [9994, "9.99 KB"],
  [9996, "10.0 KB"],
  [999_499, "999 KB"],
  [999_600, "1.00 MB"],
  [24e9, "24.0 GB"],
  [2 ** 53, "9.01 PB"],
  [-1500, "-1.50 KB"],
  [Number.POSITIVE_INFINITY, "Infinity B"],
])("%d bytes are %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

test("binary units are named as such", () => {
  expect(formatBinaryBytes(24e9)).toBe("22.4 GiB");
  expect(formatBinaryBytes(1023)).toBe("1023 B");
  expect(formatBinaryBytes(1024)).toBe("1.00 KiB");
});

test.each([
  [24e9, "24.0 GB"],
  [5.625e9, "5.625 GB"],
  [3.0525e9, "3.0525 GB"],
  [6e9, "6.00 GB"],
  [0.06e9, "60.0 MB"],
  [999_999, "1.00 MB"],
  [15_102_539_062.5, "15.103 GB"],
  [4_187_500_000_000, "4.1875 TB"],
  [512, "512 B"],
  [0, "0 B"],
])("%d bytes are finely %s", (bytes, text) => expect(formatFineBytes(bytes)).toBe(text));

test("counts are exact and separated", () => {
  expect(formatCount(124_439_808)).toBe("124,439,808");
  expect(formatCount(999)).toBe("999");
  expect(formatCount(-1000)).toBe("-1,000");
});

test("real numbers keep four digits and do not hide small ones", () => {
  expect([2.71234, 6e-4, 2.5e-5, 0, 1e7, Number.NaN].map(formatReal)).toEqual([
    "2.712",
    "0.0006000",
    "2.500e-5",
    "0",
    "1.000e+7",
    "NaN",
  ]);
});

test("durations, shares, operations", () => {
  expect([44.6, 200, 7500, Number.NaN].map(formatDuration)).toEqual(["45 s", "3 min 20 s", "2 h 5 min", "?"]);
  expect([formatShare(1, 8), formatShare(1, 0)]).toEqual(["12.5 %", "-"]);
  expect(formatOperations(1.254e12)).toBe("1.25 TFLOP");
});
