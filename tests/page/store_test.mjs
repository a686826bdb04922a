// What the panel says of the store. Figures that have to be certain ones come from the test, in the server's place.

import assert from 'node:assert/strict';
import test, { after, afterEach, before, beforeEach } from 'node:test';

import { ask, close_page, end, open_page, page, part, shoot_all, start, until } from './driver.mjs';

before(start);
beforeEach(open_page);
afterEach(close_page);
after(end);

const some_store = {
    object: 'store',
    enabled: true,
    encrypted: true,
    bytes: 1536 * 1024,
    bytes_max: 3 * 1024 * 1024,
    records: 7,
    conversations: 1234,
    prompt_tokens_asked: 4000,
    prompt_tokens_restored: 3001,
    restore_seconds: 0.5,
};

/** From now on the server says this of its store; returns how often it was asked. */
async function serve_store(answer) {
    const asked = { count: 0 };
    await page.unroute('**/v1/store');
    await page.route('**/v1/store', (route) => {
        ++asked.count;
        return route.fulfill(typeof answer === 'number' ? { status: answer, body: '{}' } : { json: answer });
    });
    return asked;
}

/** The table by its rows' names. */
async function store_shown() {
    const rows = await part('store')
        .locator('tr')
        .evaluateAll((all) => all.map((one) => [...one.cells].map((cell) => cell.textContent)));
    return Object.fromEntries(rows);
}

const last_prompt_shown = async () =>
    Object.entries(await store_shown()).filter(([name]) => name.startsWith('Last prompt'));

/** The next answer's keys came from there. */
async function answer_from(sources) {
    const usage = { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: sources };
    const chunks = [
        { choices: [{ index: 0, delta: { content: 'Yes.' } }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
        { choices: [], usage },
    ];
    const body = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');
    const answer = (route) => route.fulfill({ contentType: 'text/event-stream', body });
    await page.route('**/v1/chat/completions', answer, { times: 1 });
}

test('the panel says what is in the store, and what came back of it', async () => {
    await serve_store(some_store);
    await page.reload();
    await part('store').waitFor();
    assert.deepEqual(await store_shown(), {
        'On the disk': '1.5 MiB of 3.0 MiB',
        Conversations: '1,234',
        'Tokens restored': '3,001',
        'Of what memory lacked': '75%',
    });
    const region = page.getByRole('region', { name: 'Store' });
    assert.equal(await region.count(), 1);
    const bar = region.getByRole('img', { name: 'Store: 1.5 MiB of 3.0 MiB' });
    const width = (locator) => locator.evaluate((node) => node.getBoundingClientRect().width);
    const share = (await width(bar.locator('.bar'))) / (await width(bar));
    assert.ok(Math.abs(share - 0.5) < 0.02, `half of the bar is filled: ${share}`);
    await shoot_all('store');
});

test('what lies in host memory as well shows where the server keeps any', async () => {
    await serve_store({ ...some_store, host_bytes: 512 * 1024 });
    await page.reload();
    await part('store').waitFor();
    assert.equal((await store_shown())['Of it in host memory'], '512 KiB');
    await serve_store({ ...some_store, host_bytes: 0 });
    await page.reload();
    await part('store').waitFor();
    assert.equal((await store_shown())['Of it in host memory'], undefined);
});

test('behind a turn the figures are read anew, with the sources of its prompt', async () => {
    await serve_store(some_store);
    await page.reload();
    await part('store').waitFor();
    assert.deepEqual(await last_prompt_shown(), []);
    const asked = await serve_store({ ...some_store, bytes: 2 * 1024 * 1024, conversations: 1235 });
    await answer_from({ cached_tokens: 1024, restored_tokens: 2048, recomputed_tokens: 7 });
    await ask('Is it there?');
    assert.deepEqual(await last_prompt_shown(), [
        ['Last prompt: from the pool', '1,024'],
        ['Last prompt: from the disk', '2,048'],
        ['Last prompt: computed', '7'],
    ]);
    await shoot_all('store-turn');
    await until('it is read again', store_shown, (all) => all.Conversations === '1,235');
    assert.equal((await store_shown())['On the disk'], '2.0 MiB of 3.0 MiB');
    assert.equal(asked.count, 1);
    await part('new-conversation').click();
    assert.deepEqual(await last_prompt_shown(), [], 'it is the other conversation’s');
});

test('where there is no store nothing shows, and nobody asks again', async () => {
    for (const answer of [{ object: 'store', enabled: false }, 404, 500]) {
        const asked = await serve_store(answer);
        await page.reload();
        await until('it was asked', () => asked.count);
        await answer_from({ cached_tokens: 1, restored_tokens: 0, recomputed_tokens: 8 });
        await ask('Is it there?');
        await page.waitForTimeout(700);
        assert.equal(await part('store').count(), 0);
        assert.equal(asked.count, 1);
    }
});

test('what a server says of its store is text, and no more than a number', async () => {
    const hostile = '<img src=x onerror="document.title=1">';
    await serve_store({ ...some_store, bytes: hostile, conversations: hostile, prompt_tokens_asked: -1, bytes_max: null });
    await page.reload();
    await part('store').waitFor();
    assert.deepEqual(await store_shown(), {
        'On the disk': '0 bytes of 0 bytes',
        Conversations: '0',
        'Tokens restored': '3,001',
    });
    assert.equal(await part('store').locator('img').count(), 0);
});

test('the server’s own figures show', async (t) => {
    const store = await (await page.request.get(`${new URL(page.url()).origin}/v1/store`)).json();
    if (!store.enabled) return t.skip('the server has no store');
    await ask('The code of the red box is 4711.');
    const shown_now = await until('a conversation is stored', store_shown, (all) => all.Conversations > 0);
    assert.match(shown_now['On the disk'], /^\d.* of \d.*B$/);
    const counts = (await last_prompt_shown()).map(([, count]) => Number(count.replaceAll(',', '')));
    assert.equal(counts.length, 3);
    assert.ok(counts[2] > 0, `of a new message something is computed: ${counts}`);
});
