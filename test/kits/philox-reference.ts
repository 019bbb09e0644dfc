/** Philox 4x32-10 in plain arithmetic, as Random123 defines it; the reference for random kernels. */

const low = 0xffffffffn;

/** Ten rounds over a counter of four 32-bit words with a key of two. */
export function philox4x32(counter: readonly number[], key: readonly number[]): number[] {
  let [c0, c1, c2, c3] = counter.map(BigInt) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map(BigInt) as [bigint, bigint];
  for (let round = 0; round < 10; round++) {
    const p0 = 0xd2511f53n * c0;
    const p1 = 0xcd9e8d57n * c2;
    [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, p1 & low, (p0 >> 32n) ^ c3 ^ k1, p0 & low];
    k0 = (k0 + 0x9e3779b9n) & low;
    k1 = (k1 + 0xbb67ae85n) & low;
  }
  return [c0, c1, c2, c3].map(Number);
}

/** Words of elements first .. first + count - 1: element i uses word i mod 4 of the draw at counter floor(i / 4). */
export function wordsOf(key: number, first: number, count: number): number[] {
  const halves = (x: number) => [x % 2 ** 32, Math.floor(x / 2 ** 32)];
  const words: number[] = [];
  for (let i = first; i < first + count; ) {
    const draw = philox4x32([...halves(Math.floor(i / 4)), 0, 0], halves(key));
    for (let w = i % 4; w < 4 && i < first + count; w++, i++) words.push(draw[w]!);
  }
  return words;
}

/** Box-Muller over word pairs (2j, 2j + 1), in fp64: what initNormal draws before mean and standard deviation. */
export function normalsOf(key: number, first: number, count: number): number[] {
  const start = first - (first % 2);
  const words = wordsOf(key, start, count + 2 + (first % 2));
  return Array.from({ length: count }, (_, j) => {
    const pair = first + j - start - ((first + j) % 2);
    const radius = Math.sqrt(-2 * Math.log(((words[pair]! >>> 1) + 0.5) / 2 ** 31));
    const angle = (2 * Math.PI * words[pair + 1]!) / 2 ** 32;
    return radius * ((first + j) % 2 ? Math.sin(angle) : Math.cos(angle));
  });
}
