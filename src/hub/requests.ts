/** Requests over a network that stumbles: what is worth another try is tried again, with growing pauses. */

import { setTimeout as sleep } from "node:timers/promises";
import type { HubSettings, Patience } from "./settings.ts";

/** Worth another try: a connection that ended, silence, an overloaded server. */
export class Hiccup extends Error {
  /** What the server asked for. */
  readonly pauseMs: number | undefined;
  /** No connection came about. */
  readonly isUnreachable: boolean;
  constructor(message: string, { pauseMs, isUnreachable = false }: { pauseMs?: number; isUnreachable?: boolean } = {}) {
    super(message);
    this.pauseMs = pauseMs;
    this.isUnreachable = isUnreachable;
  }
}

/** Why a hub gave nothing, after all that was worth trying; a user is told by `unavailable` (unavailable.ts). */
export class HubFailure extends Error {
  /** Of the answer; undefined where none came. */
  readonly status: number | undefined;
  /** The hub's own word for it, such as GatedRepo. */
  readonly hubCode: string | undefined;
  /** The network or the hub's servers failed, and trying again later may help: before anything came, or after. */
  readonly outage: "unreached" | "interrupted" | undefined;
  constructor(message: string, about: Partial<Pick<HubFailure, "status" | "hubCode" | "outage">> = {}) {
    super(message);
    this.status = about.status;
    this.hubCode = about.hubCode;
    this.outage = about.outage;
  }
}

const longestPauseMs = 60_000;

/**
 * Runs `once` until it succeeds or fails for good. Attempts are counted anew whenever `progress` has passed its highest value.
 * @throws HubFailure once patience is at its end
 */
export async function patiently<T>(
  { attempts, firstPauseMs }: Patience,
  once: () => Promise<T>,
  { progress = () => 0, isFirstContact = false }: { progress?: () => number; isFirstContact?: boolean } = {},
): Promise<T> {
  let best = progress();
  for (let failed = 1; ; failed++) {
    try {
      return await once();
    } catch (error) {
      if (!(error instanceof Hiccup)) throw error;
      if (progress() > best) {
        best = progress();
        failed = 1;
      }
      const isHopeless = isFirstContact && error.isUnreachable;
      if (isHopeless || failed >= attempts)
        throw new HubFailure(error.message, { outage: isFirstContact ? "unreached" : "interrupted" });
      await sleep(Math.min(longestPauseMs, error.pauseMs ?? firstPauseMs * 2 ** (failed - 1)));
    }
  }
}

export interface Request {
  readonly method?: "GET" | "HEAD";
  readonly headers?: Readonly<Record<string, string>>;
  readonly redirect?: "follow" | "manual";
}

/**
 * One attempt. The body must come piece by piece within the silence that is allowed, or it ends with a Hiccup.
 * @throws Hiccup, HubFailure for answers that another try would not change
 */
export async function send<T>(
  { token, patience }: HubSettings,
  url: string,
  { method = "GET", headers = {}, redirect = "follow" }: Request,
  use: (response: Response, body: () => AsyncGenerator<Uint8Array>) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const silence = setTimeout(() => controller.abort(), patience.silenceMs);
  try {
    // What is compressed on its way could not be continued by byte numbers.
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch(url, {
      method,
      redirect,
      signal: controller.signal,
      headers: { "user-agent": "shunya", "accept-encoding": "identity", ...authorization, ...headers },
    });
    silence.refresh();
    await refuseFailure(response, redirect);
    return await use(response, async function* () {
      for await (const piece of response.body ?? []) {
        silence.refresh();
        yield piece;
      }
    });
  } catch (error) {
    if (error instanceof Hiccup || error instanceof HubFailure) throw error;
    throw asHiccup(error as Error, controller.signal.aborted ? patience.silenceMs : undefined);
  } finally {
    clearTimeout(silence);
    controller.abort(); // a body that was not read to its end would keep its connection
  }
}

async function refuseFailure(response: Response, redirect: Request["redirect"]): Promise<void> {
  const { status, headers } = response;
  if (response.ok || (redirect === "manual" && status >= 300 && status < 400) || status === 416) return;
  const text = headers.get("x-error-message") ?? response.statusText;
  const message = `HTTP ${status}${text === "" ? "" : ` (${text.slice(0, 300)})`}`;
  if (status === 408 || status === 429 || status >= 500) {
    const seconds = Number(headers.get("retry-after"));
    throw new Hiccup(message, seconds > 0 ? { pauseMs: 1000 * seconds } : {});
  }
  throw new HubFailure(message, { status, hubCode: headers.get("x-error-code") ?? undefined });
}

const unreachableCodes = [
  "ENOTFOUND",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "ENETUNREACH",
  "EHOSTUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** Errors of the disk and of this program pass through. */
function asHiccup(error: Error, silentMs: number | undefined): Error {
  if (silentMs !== undefined) return new Hiccup(`no answer within ${silentMs / 1000} s`, { isUnreachable: true });
  const isOfFetch = error instanceof TypeError && /fetch failed|terminated/.test(error.message);
  if (!isOfFetch) return error;
  const cause = error.cause as (Error & { code?: string; errors?: readonly Error[] }) | undefined;
  const inner = (cause?.errors?.[0] as (Error & { code?: string }) | undefined) ?? cause;
  return new Hiccup(inner?.message || inner?.code || error.message, {
    isUnreachable: unreachableCodes.includes(inner?.code ?? ""),
  });
}
