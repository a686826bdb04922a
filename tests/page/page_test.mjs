// The chat page in Chromium, against any server that keeps the contract. How to run it: README.md.

import assert from 'node:assert/strict';
import test, { after, afterEach, before, beforeEach } from 'node:test';

import {
    answer_ended,
    ask,
    attention_told,
    close_page,
    current_item,
    end,
    last_answer,
    messages_on_server,
    methods_served,
    open_page,
    pace_ms,
    page,
    part,
    proxy,
    send,
    shoot,
    shoot_all,
    shown,
    start,
    until,
} from './driver.mjs';

before(start);
beforeEach(open_page);
afterEach(close_page);
after(end);

test('an answer grows while it arrives, and the panel shows where its time and KV went', async () => {
    await shoot_all('empty');
    await page.evaluate(() => {
        window.lengths = new Set();
        new MutationObserver(() => {
            const answer = document.querySelector('[data-testid=message-assistant]');
            if (answer) window.lengths.add(answer.textContent.length);
        }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    await ask('The code of the red box is 4711.');
    assert.deepEqual(await shown('message-user'), ['The code of the red box is 4711.']);
    assert.ok((await page.evaluate(() => window.lengths.size)) >= 3, 'the answer was seen in several lengths');
    assert.equal(await part('panel-turn').count(), 1);
    const bars = await part('panel-turn')
        .getByRole('img')
        .evaluateAll((all) => all.map((bar) => bar.getAttribute('aria-label')));
    assert.match(bars[0], /^Time: queued .+, restore .+, prefill .+, decode /);
    assert.match(bars[1], /^Prompt tokens: cached \d.*, restored \d.*, recomputed \d/);
    await ask('What is the code of the red box?');
    await ask('And where do I find it?');
    assert.equal(await part('panel-turn').count(), 3);
    await part('panel-turn').first().locator('summary').click();
    await shoot_all('chat');
});

/** The panel's table on how the newest turn attended, by its rows' names; null where it has none. */
async function attention_shown() {
    const row = part('panel-turn').first();
    if ((await row.locator('details[open]').count()) === 0) await row.locator('summary').click();
    const table = row.getByTestId('attention');
    if ((await table.count()) === 0) return null;
    const rows = await table
        .locator('tr')
        .evaluateAll((all) => all.map((one) => [...one.cells].map((cell) => cell.textContent)));
    return { caption: await table.locator('caption').textContent(), ...Object.fromEntries(rows) };
}

test('a turn that asked for a method shows how it attended', async (t) => {
    const served = await methods_served();
    const methods = ['loopserve', 'snapkv'].filter((name) => served.includes(name));
    if (methods.length === 0) return t.skip('the server serves neither loopserve nor snapkv');
    await ask('The code of the red box is 4711.');
    const first = await attention_shown();
    if (attention_told().method === 'dense') assert.equal(first, null, 'a dense turn has no figures');
    const percent = (share) => (share === undefined ? undefined : `${(100 * share).toFixed(1)}%`);
    for (const method of methods) {
        await page.getByRole('combobox', { name: 'Attention' }).selectOption(method);
        const request = page.waitForRequest('**/v1/chat/completions');
        await ask(`What is the code of the red box? Please answer by ${method}.`);
        assert.equal((await request).postDataJSON().method, method);
        const told = attention_told();
        const shown_now = await attention_shown();
        assert.equal(told.method, method);
        const density = told.answer_density ?? 1; // an answer of one token is the prompt's last row's
        assert.ok(density > 0 && density <= 1, `of the answer ${density}`);
        assert.equal(shown_now.caption, `Attention: ${method}`);
        assert.equal(shown_now['Prompt: computed'], percent(told.prompt_density));
        assert.equal(shown_now['Prompt: attention held'], percent(told.prompt_mass));
        assert.equal(shown_now['Answer: keys attended to'], percent(told.answer_density));
        assert.equal(shown_now['Answer: attention held'], percent(told.answer_mass));
        assert.equal(shown_now['Choices of keys'], String(told.selections));
        assert.equal(shown_now['Steps until they serve'], String(told.lag_steps));
    }
    await shoot('attention');
});

test('stopping keeps the part that came', async () => {
    proxy.pace.ms = 300;
    await send('/long Tell me everything you know about boxes.');
    await until('some text came', last_answer);
    await part('stop').click();
    assert.equal(await answer_ended(), 'stopped');
    assert.ok(await part('send').isVisible());
    const kept = await last_answer();
    await page.waitForTimeout(700);
    assert.equal(await last_answer(), kept);
    await page.getByText('Stopped', { exact: true }).waitFor();
    assert.equal(await part('panel-turn').count(), 1);
    await shoot('stopped');
    proxy.pace.ms = pace_ms;
    await ask('Go on.');
    assert.equal((await shown('message-user')).length, 2);
});

test('two conversations answer at once and do not mix', async () => {
    proxy.pace.ms = 150;
    await send('/long first: Ada lives in Paris.');
    await until('the first answers', last_answer);
    await part('new-conversation').click();
    assert.deepEqual(await shown('message-user'), []);
    await part('composer').fill('half a thought');
    await part('new-conversation').click();
    assert.equal(await part('composer').inputValue(), 'half a thought');
    proxy.pace.ms = 40;
    await ask('second: Bob lives in Rome.');
    assert.deepEqual(await shown('message-user'), ['second: Bob lives in Rome.']);
    const second = await shown('message-assistant');
    await shoot('two-at-once');
    await page.getByTestId('conversation-item').filter({ hasText: 'first: Ada' }).getByRole('button').first().click();
    assert.deepEqual(await shown('message-user'), ['/long first: Ada lives in Paris.']);
    if (await part('stop').isVisible()) await part('stop').click();
    await answer_ended();
    assert.equal(await part('panel-turn').count(), 1);
    await page.getByTestId('conversation-item').filter({ hasText: 'second: Bob' }).getByRole('button').first().click();
    assert.deepEqual(await shown('message-assistant'), second);
});

test('editing a message rewinds to its round', async () => {
    for (const text of ['one', 'two', 'three']) await ask(text);
    await page.getByRole('article', { name: 'Turn 2' }).hover();
    await shoot('hover');
    await page.getByRole('article', { name: 'Turn 2' }).getByTestId('edit').click();
    await page.getByRole('textbox', { name: 'Edit message' }).fill('two, said better');
    await shoot('edit');
    await page.keyboard.press('Enter');
    await until(
        'the later turns are gone',
        () => shown('message-user'),
        (all) => all.length === 2,
    );
    assert.equal(await answer_ended(), 'done');
    assert.deepEqual(await shown('message-user'), ['one', 'two, said better']);
    assert.deepEqual(await messages_on_server(), ['one', 'two, said better']);
});

test('a reload finds the conversation again; it can be forked and deleted', async () => {
    await ask('remember me');
    const answer = await last_answer();
    await page.reload();
    await until('the messages are read again', last_answer);
    assert.deepEqual(await shown('message-user'), ['remember me']);
    assert.equal((await last_answer()).replace(/\s/g, ''), answer.replace(/\s/g, ''));
    const items = page.getByTestId('conversation-item');
    const count = await items.count();
    const address = page.url();
    await current_item().hover();
    await current_item().getByTestId('fork').click();
    await until(
        'the fork is open',
        () => page.url(),
        (url) => url !== address && url.includes('#'),
    );
    await until(
        'the fork has the messages',
        () => shown('message-user'),
        (all) => all[0] === 'remember me',
    );
    assert.equal(await items.count(), count + 1);
    await current_item().hover();
    await current_item().getByTestId('delete').click();
    await shoot('confirm');
    await part('confirm').click();
    await until(
        'the fork is gone',
        () => items.count(),
        (now) => now === count,
    );
});

test('a conversation that was not opened since a reload is deleted only after a question', async () => {
    await ask('keep me');
    await ask('and me');
    await part('new-conversation').click();
    await page.reload();
    const remove = page.getByRole('button', { name: 'Delete “keep me”', exact: true });
    const item = page.getByTestId('conversation-item').filter({ has: remove });
    await item.waitFor();
    assert.match(await item.textContent(), /2 turns · [1-9]/);
    await item.hover();
    await remove.click();
    await part('confirm').waitFor();
    await shoot('confirm-unopened');
    await page.keyboard.press('Escape');
    await until(
        'the question is gone',
        () => part('confirm').count(),
        (count) => count === 0,
    );
    assert.equal(await item.count(), 1);
    await item.hover();
    await remove.click();
    await part('confirm').click();
    await until(
        'the conversation is gone',
        () => item.count(),
        (count) => count === 0,
    );
});

test('a lost connection is one line with a retry', async () => {
    await page.route('**/v1/chat/completions', (route) => route.abort(), { times: 1 });
    await send('are you there?');
    await part('failure').waitFor();
    assert.deepEqual(await shown('failure'), ['The server cannot be reached. Is it running?']);
    await shoot('failure');
    await part('retry').click();
    await until(
        'it is tried again',
        () => part('failure').count(),
        (count) => count === 0,
    );
    assert.equal(await answer_ended(), 'done');
    assert.deepEqual(await shown('message-user'), ['are you there?']);
    assert.ok(await last_answer());
});

test('a message waits until the turns before it are known', async () => {
    await ask('one');
    await ask('two');
    await page.context().route('**/v1/sessions/*', (route) =>
        route.request().method() === 'GET' ? route.fulfill({ status: 503, json: { error: { message: 'busy' } } }) : route.continue(),
    );
    await page.reload();
    await until('the conversation is open', () => current_item().textContent(), (text) => /2 turns/.test(text));
    await send('three');
    assert.equal(await part('message-user').count(), 0, 'nothing is sent before its history is read');
    assert.equal(await part('composer').inputValue(), 'three');
    await page.context().unroute('**/v1/sessions/*');
    await part('send').click();
    await until('the history is there', () => part('message-user').count(), (count) => count === 2);
    await part('send').click();
    assert.equal(await answer_ended(), 'done');
    assert.deepEqual(await messages_on_server(), ['one', 'two', 'three']);
});

test('only the last turn is tried again: that drops no other', async () => {
    await page.route('**/v1/chat/completions', (route) => route.abort(), { times: 1 });
    await send('one');
    await part('failure').waitFor();
    assert.equal(await part('retry').count(), 1);
    await ask('two');
    assert.equal(await part('retry').count(), 0);
    assert.deepEqual(await shown('message-user'), ['one', 'two']);
    assert.deepEqual(await messages_on_server(), ['two']);
});

test('an API key is asked for once, sent as Bearer, and kept in the tab only', async () => {
    await page.context().route('**/v1/**', (route) => {
        if (route.request().headers().authorization === 'Bearer sesame') return route.continue();
        return route.fulfill({ status: 401, json: { error: { message: 'the API key is missing or wrong' } } });
    });
    await page.reload();
    await shoot('key');
    await part('api-key').fill('sesame');
    await page.keyboard.press('Enter');
    await ask('open');
    assert.ok(await last_answer());
    assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage }).includes('sesame')), false);
});

test('everything can be done from the keyboard', async () => {
    await page.evaluate(() => document.querySelector('.skip').focus());
    await shoot('skip');
    await page.keyboard.press('Enter');
    await page.keyboard.type('line one');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('line two');
    proxy.pace.ms = 300;
    await page.keyboard.press('Enter');
    await until('some text came', last_answer);
    assert.deepEqual(await shown('message-user'), ['line one\nline two']);
    await page.keyboard.press('Escape');
    assert.equal(await answer_ended(), 'stopped');
});

test('settings go with the next message', async () => {
    await part('settings').click();
    await page.getByLabel('Temperature').fill('0.5');
    await page.getByLabel('Longest answer').fill('7');
    await page.getByLabel('System prompt').fill('Be brief.');
    await shoot('settings');
    await page.getByRole('button', { name: 'Save' }).click();
    const creation = page.waitForRequest('**/v1/sessions');
    const chat = page.waitForRequest('**/v1/chat/completions');
    await ask('hello');
    assert.deepEqual((await creation).postDataJSON(), { system: 'Be brief.' });
    const { temperature, max_tokens, stream, messages } = (await chat).postDataJSON();
    assert.deepEqual(
        { temperature, max_tokens, stream, messages },
        { temperature: 0.5, max_tokens: 7, stream: true, messages: [{ role: 'user', content: 'hello' }] },
    );
});

test('the reader who scrolls up is left where he is', async () => {
    await page.setViewportSize({ width: 900, height: 420 });
    for (const text of ['one', 'two', 'three', 'four']) await ask(text);
    const scroller = page.locator('.scroller').filter({ visible: true });
    const from_end = () => scroller.evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
    assert.ok((await from_end()) < 4, 'the end is followed');
    await send('five');
    await until('some text came', last_answer);
    await scroller.hover();
    await page.mouse.wheel(0, -4000);
    await until(
        'scrolled up',
        () => scroller.evaluate((node) => node.scrollTop),
        (top) => top === 0,
    );
    await answer_ended();
    assert.equal(await scroller.evaluate((node) => node.scrollTop), 0);
    await page.getByRole('button', { name: 'Latest' }).click();
    await until('back at the end', from_end, (distance) => distance < 4);
});

test('on a narrow screen the list and the panel are drawers', async () => {
    await ask('hello');
    await page.setViewportSize({ width: 390, height: 780 });
    await page.locator('#sidebar').waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Conversations' }).click();
    await shoot('drawer-list');
    await page.keyboard.press('Escape');
    await page.locator('#sidebar').waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Time and KV' }).click();
    await part('panel-turn').waitFor();
    await shoot('drawer-panel');
});
