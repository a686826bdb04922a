// What the page makes of a text: [Markdown, HTML], without the copy buttons.

const code = (language, text) =>
    `<figure class="code"><figcaption><span>${language}</span></figcaption>` +
    `<pre tabindex="0"><code>${text}</code></pre></figure>`;

export const markdown_cases = [
    ['', ''],
    ['one\ntwo\n\nthree', '<p>one<br>two</p><p>three</p>'],
    ['<img src=x onerror=alert(1)>', '<div class="mixed">&lt;img src=x onerror=alert(1)&gt;</div>'],
    ['[a](javascript:alert(1))', '<p>a</p>'],
    ['# Big\n## Less', '<h2>Big</h2><h3>Less</h3>'],
    [
        '**bold** *it* __bold__ _it_ ***both***',
        '<p><strong>bold</strong> <em>it</em> <strong>bold</strong> <em>it</em> <em><strong>both</strong></em></p>',
    ],
    ['*a **b** c*', '<p><em>a <strong>b</strong> c</em></p>'],
    ['2 * 3 * 4, snake_case_name, a ** b', '<p>2 * 3 * 4, snake_case_name, a ** b</p>'],
    ['**open', '<p>**open</p>'],
    ['\\*plain\\*', '<p>*plain*</p>'],
    ['`a < b` and ``a ` b``', '<p><code>a &lt; b</code> and <code>a ` b</code></p>'],
    ['`**not bold**`', '<p><code>**not bold**</code></p>'],
    [
        'text\n```cpp\nint a = 1 < 2;\n\n*x*\n```\nafter',
        `<p>text</p>${code('cpp', 'int a = 1 &lt; 2;\n\n*x*')}<p>after</p>`,
    ],
    ['```\nstill open', code('text', 'still open')],
    ['~~~\n```\n~~~', code('text', '```')],
    ['- a\n- b\n  more\n\n- c', '<ul><li><p>a</p></li><li><p>b<br>more</p></li><li><p>c</p></li></ul>'],
    ['1. a\n   - x\n   - y\n2. b', '<ol><li>a<ul><li>x</li><li>y</li></ul></li><li>b</li></ol>'],
    ['1. a\n- x\n2. b', '<ol><li>a</li></ol><ul><li>x</li></ul><ol start="2"><li>b</li></ol>'],
    ['It began in\n1984. A year.', '<p>It began in<br>1984. A year.</p>'],
    ['so:\n- a', '<p>so:</p><ul><li>a</li></ul>'],
    ['a\n\n---\n\nb', '<p>a</p><hr><p>b</p>'],
];
