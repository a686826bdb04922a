// Chromium with the chat page open, and words for what a person does there. A test opens a page of its own.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { start_paced_proxy } from './paced_proxy.mjs';

const { chromium } = createRequire(import.meta.url)('playwright-core');

const base_url = process.env.BASE_URL ?? 'http://127.0.0.1:8080';
const screenshots = process.env.SCREENSHOTS;
export const pace_ms = Number(process.env.PACE_MS ?? 40);
const flags = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
];

export let proxy;
export let page;
let browser;
export const patience_ms = Number(process.env.PATIENCE_MS ?? 20000);
let problems;
let made;

export async function start() {
    proxy = await start_paced_proxy(base_url, pace_ms);
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: flags });
}

export async function end() {
    await browser?.close();
    proxy?.close();
}

export async function open_page() {
    proxy.pace.ms = pace_ms;
    proxy.events.length = 0;
    const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, reducedMotion: 'reduce' });
    page = await context.newPage();
    page.setDefaultTimeout(patience_ms);
    problems = [];
    made = [];
    page.on('pageerror', (error) => problems.push(error.message));
    page.on('console', (message) => {
        // Chromium logs every request that fails; the tests that make some fail look at what the page says of it.
        if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
            problems.push(message.text());
    });
    page.on('response', async (response) => {
        const is_creation =
            response.request().method() === 'POST' && /\/v1\/sessions(\/[^/]+\/fork)?$/.test(response.url());
        if (is_creation && response.ok()) made.push((await response.json()).id);
    });
    await page.goto(proxy.url);
    await part('composer').waitFor();
}

export async function close_page() {
    for (const id of made) await page.request.delete(`${base_url}/v1/sessions/${encodeURIComponent(id)}`);
    await page.context().close();
    assert.deepEqual(problems, [], 'the browser has nothing to complain of');
}

/** What has this data-testid and is on the screen. */
export const part = (name) => page.getByTestId(name).filter({ visible: true });
export const shown = (name) => part(name).allTextContents();
export const current_item = () => page.getByTestId('conversation-item').filter({ has: page.locator('[aria-current]') });

/** Waits until `look()` gives a value that `is_right`. */
export async function until(what, look, is_right = Boolean) {
    const deadline = Date.now() + patience_ms;
    for (;;) {
        const value = await look();
        if (is_right(value)) return value;
        assert.ok(Date.now() < deadline, `${what}; last seen: ${JSON.stringify(value)}`);
        await page.waitForTimeout(25);
    }
}

export async function send(text) {
    await part('composer').fill(text);
    await part('send').click();
}

const states = () =>
    page
        .locator('.turn')
        .filter({ visible: true })
        .evaluateAll((all) => all.map((turn) => turn.dataset.state));
export const last_answer = async () => (await shown('message-assistant')).at(-1) ?? '';

/** Resolves to how the last turn ended. */
export const answer_ended = async () =>
    (await until('the answer ends', states, (all) => !['waiting', 'answering'].includes(all.at(-1)))).at(-1);

/** Sends a message and waits for its whole answer. */
export async function ask(text) {
    const turns = (await states()).length;
    await send(text);
    await until('the message is shown', states, (all) => all.length === turns + 1);
    assert.equal(await answer_ended(), 'done');
}

/** The next answer is this one, whatever the server would say: text, and what its model thought, at once. */
export async function answer_with(text, thought = '') {
    const usage = { prompt_tokens: 9, completion_tokens: 9 };
    const chunks = [
        ...(thought ? [{ choices: [{ index: 0, delta: { reasoning_content: thought } }] }] : []),
        { choices: [{ index: 0, delta: { content: text } }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
        { choices: [], usage },
    ];
    const body = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');
    const answer = (route) => route.fulfill({ contentType: 'text/event-stream', body });
    await page.route('**/v1/chat/completions', answer, { times: 1 });
}

/** What the server said of how the last turn attended. */
export function attention_told() {
    const data = proxy.events.map((event) => event.replace(/^data: /, '').trim());
    const chunks = data.filter((text) => text.startsWith('{')).map((text) => JSON.parse(text));
    return chunks.findLast((chunk) => chunk.attention)?.attention;
}

/** The attention methods that a turn may ask for. */
export async function methods_served() {
    const models = await (await page.request.get(`${base_url}/v1/models`)).json();
    return models.data[0].methods ?? [];
}

const session_address = () => `${base_url}/v1/sessions/${new URL(page.url()).hash.slice(1)}`;

/** The server knows the conversation no more, as after a restart. */
export const forget_on_server = () => page.request.delete(session_address());

export async function messages_on_server() {
    const { rounds } = await (await page.request.get(session_address())).json();
    return rounds.filter((round) => round.user).map((round) => round.user);
}

export async function shoot(name) {
    if (!screenshots) return;
    mkdirSync(screenshots, { recursive: true });
    await page.screenshot({ path: join(screenshots, `${name}.png`) });
}

/** The same moment in light and dark, wide and narrow. */
export async function shoot_all(name) {
    if (!screenshots) return;
    for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        for (const [size, width, height] of [
            ['wide', 1360, 860],
            ['middle', 1000, 760],
            ['narrow', 390, 780],
        ]) {
            await page.setViewportSize({ width, height });
            await page.waitForTimeout(60);
            await shoot(`${name}-${size}-${colorScheme}`);
        }
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1360, height: 860 });
}
