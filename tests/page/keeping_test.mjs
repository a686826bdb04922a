// What the chat page keeps of conversations: over a restart of the server, by name, in a search, as a file.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after, afterEach, before, beforeEach } from 'node:test';

import {
    answer_ended,
    answer_with,
    ask,
    close_page,
    current_item,
    end,
    forget_on_server,
    last_answer,
    messages_on_server,
    open_page,
    page,
    part,
    shoot_all,
    shown,
    start,
    until,
} from './driver.mjs';

before(start);
beforeEach(open_page);
afterEach(close_page);
after(end);

const quiet_line = 'The server had forgotten this conversation. The page sent it again.';
const rich_answer = `Three ways were tried; the last is the best:

| Method | Keys kept | Share of attention held | Where its time goes | Since |
|---|--:|--:|---|---|
| dense | 4096 | 100.0% | reading all keys at every step | 0.1 |
| snapkv | 512 | 97.2% | one selection behind the prompt | 0.3 |
| loopserve | 512 | 98.1% | a selection every sixteen steps | 0.4 |

The share that a set $S$ of keys holds is

$$m(S) = \\frac{1}{n}\\sum_{t=1}^{n} \\sum_{i \\in S} \\frac{\\exp(q_t^\\top k_i / \\sqrt{d})}{\\sum_{j} \\exp(q_t^\\top k_j / \\sqrt{d})}$$

\`\`\`python
def held(weights, kept):  # of one row of attention, which sums to one
    """The share of attention that the kept keys hold, whatever their order and however many there are of them."""
    return sum(weights[i] for i in kept) / 1.0
\`\`\`
`;

/** The messages of each request for an answer from now on. */
function requests_seen() {
    const seen = [];
    page.on('request', (request) => {
        if (request.url().endsWith('/v1/chat/completions')) seen.push(request.postDataJSON());
    });
    return seen;
}
const said = (body) => body.messages.map(({ role, content }) => (role === 'user' ? content : role));

test('a conversation that the server forgot goes on: the page sends it again and says so', async () => {
    await ask('one');
    await ask('two');
    await forget_on_server();
    const seen = requests_seen();
    await ask('three');
    assert.deepEqual(seen.map(said), [['three'], ['one', 'assistant', 'two', 'assistant', 'three']]);
    assert.deepEqual(seen.map((body) => body.continue ?? false), [true, false]);
    assert.deepEqual((await shown('note')).filter(Boolean), [quiet_line]);
    assert.deepEqual(await messages_on_server(), ['one', 'two', 'three']);
    await ask('four');
    assert.deepEqual(said(seen.at(-1)), ['four'], 'once is enough');
    assert.deepEqual(await messages_on_server(), ['one', 'two', 'three', 'four']);
});

test('after a restart the page loads what this browser kept, and goes on with it', async () => {
    await answer_with(rich_answer, 'They ask for a comparison. A table, then, the formula, and how to count it.');
    await ask('Compare the methods for me, with the formula and some code.');
    await forget_on_server();
    await page.reload();
    await until('the messages are read again', last_answer);
    assert.match(await current_item().textContent(), /Kept in this browser/);
    assert.equal(await part('thought').count(), 1);
    await ask('And which of them do I take?');
    assert.deepEqual((await shown('note')).filter(Boolean), [quiet_line]);
    assert.equal((await messages_on_server()).length, 2);
    assert.doesNotMatch(await current_item().textContent(), /Kept in this browser/);
    await page.locator('.hljs-comment').first().waitFor();
    const width = (selector) => page.locator(selector).first().evaluate((node) => node.getBoundingClientRect().width);
    await page.setViewportSize({ width: 390, height: 780 });
    assert.ok((await width('.table')) <= 390 && (await width('.code')) <= 390, 'wide parts scroll in themselves');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await page.setViewportSize({ width: 1360, height: 860 });
    await page.locator('.scroller').filter({ visible: true }).evaluate((node) => (node.scrollTop = 0));
    await shoot_all('restart');
});

test('a browser that is not to keep conversations keeps none', async () => {
    await ask('forget me');
    const kept = () => page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith('rondo-kept:')).length);
    assert.equal(await kept(), 1);
    await part('settings').click();
    await page.getByLabel('Keep conversations in this browser').uncheck();
    await page.getByRole('button', { name: 'Save' }).click();
    await until('all are gone', kept, (count) => count === 0);
    await ask('and this');
    assert.equal(await kept(), 0);
});

test('a conversation has the title that it is given, after a reload too', async () => {
    await ask('What is a rondo?');
    assert.match(await current_item().textContent(), /^What is a rondo\?/);
    await current_item().hover();
    await current_item().getByTestId('rename').click();
    await part('title').fill('Forms of <b>music</b>');
    await page.keyboard.press('Enter');
    const title = () => page.locator('#title').textContent();
    await until('it is renamed', title, (text) => text === 'Forms of <b>music</b>');
    await page.reload();
    await until('the title is read again', title, (text) => text === 'Forms of <b>music</b>');
});

test('a search finds titles and what was said', async () => {
    for (const text of ['apples', 'pears', 'plums', 'cherries']) {
        await part('new-conversation').click();
        await ask(text);
    }
    const items = page.getByTestId('conversation-item');
    await part('search').fill('PLUM');
    await until('one is left', () => items.count(), (count) => count === 1);
    assert.match(await items.first().textContent(), /plums/);
    await part('search').fill('no such words');
    await page.getByText('No conversation has these words.').waitFor();
    await part('search').fill('');
    await until('all are back', () => items.count(), (count) => count >= 4);
});

test('a conversation leaves as Markdown or JSON', async () => {
    await answer_with('Blue.', 'red or blue');
    await ask('Which colour?');
    const exported = async (kind) => {
        await part('export').click();
        const download = page.waitForEvent('download');
        await page.getByRole('button', { name: kind, exact: true }).click();
        const file = await download;
        return { name: file.suggestedFilename(), text: readFileSync(await file.path(), 'utf8') };
    };
    const markdown = await exported('Markdown');
    assert.equal(markdown.name, 'Which colour.md');
    assert.match(markdown.text, /## You\n\nWhich colour\?\n\n## Answer\n\n<think>\nred or blue\n<\/think>\n\nBlue\.\n$/);
    const json = await exported('JSON');
    assert.equal(json.name, 'Which colour.json');
    const { messages } = JSON.parse(json.text);
    assert.deepEqual(messages.map(({ role, content }) => [role, content]), [['user', 'Which colour?'], ['assistant', 'Blue.']]);
    assert.equal(messages[1].reasoning_content, 'red or blue');
});

test('the last message is answered again in its place', async () => {
    await ask('one');
    await ask('two');
    const seen = requests_seen();
    await page.getByRole('article', { name: 'Turn 2' }).hover();
    assert.equal(await part('again').count(), 1, 'only the last can be');
    await part('again').click();
    await until('it is asked', () => seen.length, (count) => count === 1);
    assert.equal(await answer_ended(), 'done');
    assert.deepEqual(await shown('message-user'), ['one', 'two']);
    assert.deepEqual(await messages_on_server(), ['one', 'two']);
});
