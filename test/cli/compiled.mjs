// The command as an installed package runs it: what setup compiled, and not the sources.
import { main } from "../../dist/cli/main.js";

await main(process.argv.slice(2));
