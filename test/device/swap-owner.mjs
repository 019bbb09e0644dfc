// A process that has a swap, for tests that end it: says its folder, and then does what its second argument says.
const { Swap } = await import(new URL("../../src/device/swap.ts", import.meta.url).href);

const [parent, end] = process.argv.slice(2);
const aio = { blockBytes: 1 << 16, queueDepth: 2, parallelism: 1 };
const swap = new Swap({ folders: [parent], capacityBytes: 1 << 20, rank: 0, verify: true, ...aio });
process.stdout.write(`${swap.paths[0]}\n`);
if (end === "listen") process.on("SIGINT", () => process.stdout.write("heard\n"));
if (end === "throw") throw new Error("a script's own error");
if (end === "exit") process.exit(0);
setInterval(() => {}, 1000);
