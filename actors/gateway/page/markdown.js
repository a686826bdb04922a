// An element that shows a growing Markdown text. A block that did not change keeps its nodes, and the reader's selection;
// while the text grows, only its last blocks are read anew.

import { code_figure } from './code.js';
import { element } from './dom.js';
import { fence_line, markup_of, split_blocks } from './markdown_text.js';
import { typeset } from './math.js';
import { is_deeper, text_fragment } from './sanitize.js';

const text_characters_max = 256 * 1024;
const text_lines_max = 8 * 1024;
const block_characters_max = 32 * 1024;
const depth_max = 128;
const blocks_max = 1024; // each takes a millisecond or two; what follows them is shown as it is

const is_blank = (text) => text.trim() === '';

/** As marked reads them, so that the sources of blocks are pieces of this text. */
const normal_lines = (text) =>
    text.replace(/\r\n?/g, '\n').replace(/^( *)(\t+)/gm, (_, spaces, tabs) => spaces + '    '.repeat(tabs.length));

/** How much of a text is read as Markdown; what is beyond it is shown as it is. */
function readable_length(text) {
    let at = -1;
    for (let lines = 0; lines < text_lines_max; lines += 1) {
        at = text.indexOf('\n', at + 1);
        if (at < 0) return Math.min(text.length, text_characters_max);
    }
    return Math.min(at, text_characters_max);
}

const plain_block = (text) => element('p', { class: 'plain' }, text);

/** Only the addresses that sanitize.js lets through; and no page that is opened learns of this one. */
function finish_link(link) {
    if (!link.hasAttribute('href')) return link.replaceWith(...link.childNodes);
    link.target = '_blank';
    link.rel = 'noopener noreferrer nofollow';
}

function finish(fragment, is_growing) {
    fragment.querySelectorAll('a').forEach(finish_link);
    fragment.querySelectorAll('pre').forEach((pre) => pre.replaceWith(code_figure(pre, is_growing)));
    fragment.querySelectorAll('x-math').forEach(typeset);
    for (const table of fragment.querySelectorAll('table')) {
        const frame = element('div', { class: 'table', role: 'region', 'aria-label': 'Table', tabindex: 0 });
        table.replaceWith(frame);
        frame.append(table);
    }
}

/** The one element of a block, or null where it shows nothing. */
function render_block(source, links, is_growing) {
    if (source.length > block_characters_max && !fence_line.test(source)) return plain_block(source);
    let fragment;
    try {
        fragment = text_fragment(markup_of(source, links));
    } catch {
        return plain_block(source); // too deep for one of the libraries
    }
    if (is_deeper(fragment, depth_max)) return plain_block(source);
    finish(fragment, is_growing);
    for (const node of [...fragment.childNodes])
        if (node.nodeType === Node.TEXT_NODE && is_blank(node.data)) node.remove();
    if (fragment.childNodes.length === 0) return null;
    if (fragment.childNodes.length === 1 && fragment.firstElementChild) return fragment.firstElementChild;
    return element('div', { class: 'mixed' }, fragment);
}

export class MarkdownView {
    constructor(parent) {
        this.parent = parent;
        this.blocks = []; // {key, node}
        this.settled = { text: '', sources: [] };
    }

    /** While it is growing only more can follow, so what is far enough from the end is read no more. */
    update(whole, is_growing = false) {
        const length = readable_length(whole);
        const text = normal_lines(whole.slice(0, length));
        if (!is_growing || !text.startsWith(this.settled.text)) this.settled = { text: '', sources: [] };
        const { sources, links } = split_blocks(text.slice(this.settled.text.length));
        const shown = [...this.settled.sources, ...sources].filter((source) => !is_blank(source));
        if (is_growing) this.#settle(text, sources);
        this.#show(shown, links, is_growing, whole.slice(length));
    }

    /** More text may change the last block, or join it to the one before. */
    #settle(text, sources) {
        const read = sources.join('');
        if (!text.startsWith(read, this.settled.text.length)) return; // marked wrote one of them anew
        let end = sources.length;
        for (let kept = 0; end > 0 && kept < 2;) if (!is_blank(sources[--end])) kept += 1;
        this.settled.text += sources.slice(0, end).join('');
        this.settled.sources.push(...sources.slice(0, end));
    }

    #show(sources, links, is_growing, beyond) {
        const defined = Object.keys(links).length > 0 ? JSON.stringify(links) : '';
        const keys = sources.map((source) => (defined && source.includes('[') ? source + defined : source));
        if (beyond) keys.push(`beyond ${beyond.length}`);
        let same = 0;
        while (same < keys.length && keys[same] === this.blocks[same]?.key) same += 1;
        if (!is_growing && this.blocks.at(-1)?.is_growing) same = Math.min(same, this.blocks.length - 1);
        for (const { node } of this.blocks.splice(same)) node?.remove();
        for (let at = same; at < keys.length; at += 1) {
            const is_last = is_growing && at === keys.length - 1;
            const source = at < sources.length ? sources[at] : beyond;
            const is_read = at < Math.min(sources.length, blocks_max);
            const node = is_read ? render_block(source, links, is_last) : plain_block(source);
            this.blocks.push({ key: keys[at], node, is_growing: is_last });
            if (node) this.parent.append(node);
        }
    }
}
