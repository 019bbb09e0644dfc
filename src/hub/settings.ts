/** Where models come from and where they are kept, by the environment variables that Hugging Face's own tools go by. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../errors/errors.ts";

export interface HubSettings {
  /** The folder of all repositories. */
  readonly cache: string;
  /** Without a slash at its end. */
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Nothing is asked of the network. */
  readonly isOffline: boolean;
  readonly patience: Patience;
}

/** How long a network that stumbles is waited for. */
export interface Patience {
  /** In a row without a byte of progress. */
  readonly attempts: number;
  /** Before the second attempt; doubled each time. */
  readonly firstPauseMs: number;
  /** Without a byte. */
  readonly silenceMs: number;
}

const patience: Patience = { attempts: 6, firstPauseMs: 500, silenceMs: 30_000 };

/** @throws UsageError for an HF_ENDPOINT that is no address, or a token that is none */
export async function hubSettings(env: NodeJS.ProcessEnv = process.env): Promise<HubSettings> {
  const home = env.HF_HOME || join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface");
  const endpoint = (env.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
  if (!/^https?:\/\/[^/]/.test(endpoint) || !URL.canParse(endpoint))
    throw new UsageError(`HF_ENDPOINT: found ${endpoint}; wanted an address such as https://huggingface.co`);
  const token = env.HF_TOKEN?.trim() || (await tokenIn(env.HF_TOKEN_PATH || join(home, "token")));
  // What is wrong with a secret is said without showing it.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new UsageError("HF_TOKEN: found spaces or other characters that no token has; wanted one like hf_...");
  return {
    cache: env.HF_HUB_CACHE || join(home, "hub"),
    endpoint,
    token,
    isOffline: /^(1|on|yes|true)$/i.test(env.HF_HUB_OFFLINE ?? ""),
    patience,
  };
}

/** What `hf auth login` leaves. */
async function tokenIn(path: string): Promise<string | undefined> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trim() || undefined;
}
