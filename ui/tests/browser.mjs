// Opens pages in headless Chromium.

import { existsSync } from "node:fs";
import puppeteer from "puppeteer-core";

const paths = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const chromium = paths.find((path) => path && existsSync(path));

export function launch() {
  return puppeteer.launch({ executablePath: chromium, args: ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"], protocolTimeout: 300_000 });
}

/** Opens a page; its `problems` are errors of scripts and everything that it fetches. */
export function open(browser, file, fragment = "", how = {}) {
  return openUrl(browser, `file://${file}`, fragment, how);
}

/** The same at a URL. */
export async function openUrl(browser, address, fragment = "", { width = 1280, height = 1000, theme = "light" } = {}) {
  const page = await browser.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && page.problems.push(`console: ${message.text()}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith("data:") && url.split("#")[0] !== address) page.problems.push(`fetches ${url.slice(0, 200)}`);
  });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto(`${address}${fragment}`);
  await page.waitForSelector("main h1", { timeout: 120_000 });
  return page;
}

/** Waits until a function gives what is expected. */
export async function until(page, check, ...words) {
  await page.waitForFunction(check, { timeout: 120_000 }, ...words);
}

/** Goes to another fragment of the open page. */
export async function go(page, fragment) {
  await page.evaluate((to) => {
    location.hash = to;
  }, fragment);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))));
}

export const text = (page, selector) => page.$eval(selector, (it) => it.textContent);
export const hash = (page) => page.evaluate(() => location.hash);
