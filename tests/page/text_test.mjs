// What a model writes, as the chat page shows it: Markdown, formulas, thoughts; and nothing that runs or tells of itself.

import assert from 'node:assert/strict';
import test, { after, afterEach, before, beforeEach } from 'node:test';

import {
    answer_with,
    ask,
    close_page,
    end,
    last_answer,
    open_page,
    page,
    part,
    patience_ms,
    proxy,
    shown,
    start,
    until,
} from './driver.mjs';
import { costly_patterns, hostile_texts } from './hostile_texts.mjs';
import { markdown_cases } from './markdown_cases.mjs';

before(start);
beforeEach(open_page);
afterEach(close_page);
after(end);

/** The HTML of a text, read whole and read growing by a character at a time. */
const made_of = (text) =>
    page.evaluate(async (source) => {
        const { MarkdownView } = await import('/page/markdown.js');
        const whole = document.createElement('div');
        new MarkdownView(whole).update(source);
        const grown = document.createElement('div');
        const view = new MarkdownView(grown);
        for (let length = 0; length <= source.length; length += 1) view.update(source.slice(0, length), true);
        view.update(source, false);
        for (const node of [whole, grown]) node.querySelectorAll('button').forEach((button) => button.remove());
        return [whole, grown].map((node) => node.innerHTML.replace(/>\n+</g, '><').trim());
    }, text);

test('Markdown becomes nodes, the same whether it came at once or bit by bit', async () => {
    for (const [text, html] of markdown_cases) assert.deepEqual(await made_of(text), [html, html], text);
});

test('text that costs much to read holds nobody up', async () => {
    const took = await page.evaluate(async (patterns) => {
        const { MarkdownView } = await import('/page/markdown.js');
        const times = [];
        for (const pattern of patterns) {
            const started = performance.now();
            new MarkdownView(document.createElement('div')).update(pattern.repeat(20000));
            times.push([pattern, performance.now() - started]);
        }
        return times;
    }, costly_patterns);
    for (const [pattern, ms] of took) assert.ok(ms < patience_ms, `${JSON.stringify(pattern)} took ${ms} ms`);
});

/** Elements and attributes within the answers that no answer may have. */
const forbidden_nodes = () =>
    page.evaluate(() => {
        const tags = 'script,img,svg:not(.icon),style,form,input,iframe,object,embed,video,audio,base,link,meta,details,' +
            'template,noscript,annotation-xml,mglyph,[style],[id],[name]';
        const found = [];
        for (const answer of document.querySelectorAll('.markdown')) {
            for (const node of answer.querySelectorAll('*')) {
                if (node.matches(tags)) found.push(node.outerHTML);
                for (const { name, value } of node.attributes) {
                    if (name.startsWith('on')) found.push(node.outerHTML);
                    const is_safe = name !== 'href' || /^(https?:|mailto:|#icon-)/.test(value);
                    if (!is_safe) found.push(node.outerHTML);
                }
            }
        }
        return found;
    });

test('nothing that a model writes runs, leaves the page, or dresses up', async () => {
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    page.on('dialog', (dialog) => dialog.dismiss());
    await page.evaluate(() => {
        window.violations = [];
        document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.blockedURI));
    });
    await answer_with(hostile_texts.join('\n\n'), hostile_texts.join('\n\n'));
    await ask('break out');
    await page.getByTestId('thought').locator('summary').click();
    // Each alone too: what one of them opens swallows no other.
    await page.evaluate(async (texts) => {
        const { MarkdownView } = await import('/page/markdown.js');
        for (const text of texts) {
            const parent = document.createElement('div');
            parent.className = 'markdown';
            document.querySelector('.turns').append(parent);
            new MarkdownView(parent).update(text);
        }
    }, hostile_texts);
    await until('the formulas are set', () => page.locator('x-math math').count());
    await until(
        'no formula waits',
        () => page.locator('x-math:not(.not-typeset):not(:has(math))').count(),
        (count) => count === 0,
    );
    for (const link of await page.locator('.markdown a').all()) await link.dispatchEvent('mouseover');
    assert.deepEqual(await forbidden_nodes(), []);
    assert.equal(await page.evaluate(() => window.broken_out), undefined);
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    assert.deepEqual(asked.filter((url) => !url.startsWith(proxy.url)), []);
    assert.equal(await page.evaluate(() => document.getElementById('composer').localName), 'form');
});

test('a link opens elsewhere and tells nothing of this page', async () => {
    await answer_with('[a place](https://example.com/x) and ![a picture](https://example.com/y.png)');
    await ask('where?');
    const link = page.locator('.markdown a').first();
    assert.equal(await link.getAttribute('target'), '_blank');
    assert.match(await link.getAttribute('rel'), /noopener.*noreferrer/);
    assert.match(await last_answer(), /Image: a picture/);
});

test('a formula becomes MathML, and one that is none stays its source', async () => {
    await answer_with('So $x^2 + 1$ and\n\n$$\\int_0^1 f(x)\\,dx$$\n\nbut it costs $5 or $6, and $\\nothing{$.');
    await ask('how much?');
    await until(
        'two formulas are set',
        () => page.locator('.formula math').count(),
        (count) => count === 2,
    );
    assert.match(await last_answer(), /it costs \$5 or \$6/);
});

test('a formula that defines macros stays its source: they could grow without a bound', async () => {
    const growing = [
        `\\edef\\a{x}${'\\edef\\a{\\a\\a}'.repeat(8)}\\a`,
        '\\global\\let\\a=x \\a',
        '\\def1{y₂y₂}\\def2{z}x₁x₁',
        '\\newcommand{\\a}[1]{#1#1}\\a{\\a{x}}',
        '\\tag{x}\\text{\\df@tag\\df@tag}',
    ];
    await answer_with([...growing, 'x \\\\@y'].map((tex) => `$$${tex}$$`).join('\n\n'));
    await ask('how much?');
    await page.locator('x-math math').waitFor(); // the last: an @ behind a line's end is no inner word
    await until(
        'each is its source',
        () => page.locator('x-math.not-typeset').count(),
        (count) => count === growing.length,
    );
});

test('code has its colours', async () => {
    await answer_with('```cpp\nint main() { return 0; } // done\n```');
    await ask('code');
    await page.locator('.code .hljs-comment').waitFor();
    assert.equal(await page.locator('.code code').textContent(), 'int main() { return 0; } // done');
});

test('an HTTP message with many empty lines holds nobody up', async () => {
    await answer_with(`\`\`\`http\nGET / HTTP/1.1\n${'\n'.repeat(1500)}\n\`\`\`\n\n\`\`\`cpp\nint a; // done\n\`\`\``);
    await ask('how do I ask?');
    await page.locator('.code .hljs-comment').waitFor(); // of the code behind it
});

for (const [name, answer, thought] of [
    ['between <think> and </think>', '<think>\nred or blue\n</think>\n\nBlue.', ''],
    ['before </think>, as templates open it', 'red or blue\n</think>\n\nBlue.', ''],
    ['in reasoning_content', 'Blue.', 'red or blue'],
]) {
    test(`a thought ${name} is folded away and can be read`, async () => {
        await answer_with(answer, thought);
        await ask('which colour?');
        assert.deepEqual(await shown('message-assistant'), ['Blue.']);
        assert.equal(await part('thought').locator('summary').textContent(), 'Thought, 3 words');
        assert.equal(await page.getByText('red or blue').isVisible(), false);
        await part('thought').locator('summary').click();
        await page.getByText('red or blue').waitFor();
    });
}

test('a thought of one word is one word; <think> in code is none', async () => {
    await answer_with('<think>Hm.</think>\nYes.\n\n```\n<think>\n```');
    await ask('really?');
    assert.equal(await part('thought').locator('summary').textContent(), 'Thought, 1 word');
    assert.equal(await part('thought').count(), 1);
    assert.match(await last_answer(), /Yes\.[^]*<think>/);
});
