// A real browser for tests: the one of the system, if there is one.
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome"];

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** SHUNYA_CHROMIUM, or the first known name on PATH. */
export function findBrowser(): string | undefined {
  const named = process.env.SHUNYA_CHROMIUM;
  if (named) return named;
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
}

export const launchBrowser = (executablePath: string): Promise<Browser> =>
  chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

/** A page and what went wrong on it, or was asked of any other place than its own file. */
export interface Visit {
  readonly page: Page;
  readonly problems: string[];
}

/** Files of tests, shown in windows of their own. */
export class Pages {
  readonly #folder = mkdtempSync(join(tmpdir(), "shunya-page-"));
  readonly #browser: Browser;
  constructor(browser: Browser) {
    this.#browser = browser;
  }

  write(name: string, content: string): string {
    const path = join(this.#folder, name);
    writeFileSync(path, content);
    return pathToFileURL(path).href;
  }

  async open(url: string, options: BrowserContextOptions = {}): Promise<Visit> {
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("console", (message) => problems.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
    page.on("request", (request) => {
      if (!/^(file|data):/.test(request.url())) problems.push(`request: ${request.url()}`);
    });
    await page.goto(url);
    return { page, problems };
  }

  async close(): Promise<void> {
    await this.#browser.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
