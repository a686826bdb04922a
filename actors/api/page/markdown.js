// A small, safe Markdown: paragraphs, headings, fenced code, lists, inline code, bold and italic, made of DOM nodes.
// Anything else stays the text it is. Every scan is linear, because the text comes from a model and may be anything.

import { copy_button, element } from './dom.js';

const fence_line = /^ {0,3}(`{3,}|~{3,}) *([\w+#.-]*)[^`]*$/;
const heading_line = /^(#{1,6}) +(.*)$/;
const rule_line = /^ {0,3}(-{3,}|\*{3,}|_{3,}) *$/;
const item_line = /^( *)([-*+]|\d{1,9}[.)]) +(.*)$/;
const nesting_max = 8;

const is_blank = (line) => line.trim() === '';
const is_ordered = (marker) => /^\d/.test(marker);

function code_block(lines, start) {
    const [, fence, language] = fence_line.exec(lines[start]);
    const closes = (line) => line.trim().startsWith(fence) && line.trim().replaceAll(fence[0], '') === '';
    let end = start + 1;
    while (end < lines.length && !closes(lines[end])) ++end;
    return {
        kind: 'code',
        language,
        text: lines.slice(start + 1, end).join('\n'),
        end: Math.min(end + 1, lines.length),
    };
}

/** A list of the other kind at the same depth is a list of its own. */
function is_other_list([, indent, marker], first) {
    return first && indent.length <= first.indent && is_ordered(marker) !== is_ordered(first.marker);
}

function list_block(lines, start) {
    const items = [];
    let end = start;
    for (let at = start; at < lines.length; ++at) {
        const match = item_line.exec(lines[at]);
        if (match && is_other_list(match, items[0])) break;
        if (match) items.push({ indent: match[1].length, marker: match[2], text: match[3] });
        else if (/^ {2,}\S/.test(lines[at]) && !fence_line.test(lines[at]))
            items.at(-1).text += `\n${lines[at].trim()}`;
        else if (!is_blank(lines[at]) || is_blank(lines[at - 1])) break;
        if (!is_blank(lines[at])) end = at + 1;
    }
    return { kind: 'list', items, end };
}

/** A list cuts into a paragraph only with a bullet or a 1, so that a line that begins with a year stays text. */
function interrupts_paragraph(line) {
    const item = item_line.exec(line);
    if (item) return !is_ordered(item[2]) || /^1\D/.test(item[2]);
    return is_blank(line) || fence_line.test(line) || heading_line.test(line) || rule_line.test(line);
}

function paragraph_block(lines, start) {
    let end = start + 1;
    while (end < lines.length && !interrupts_paragraph(lines[end])) ++end;
    return { kind: 'paragraph', text: lines.slice(start, end).join('\n').trim(), end };
}

function block_at(lines, start) {
    if (fence_line.test(lines[start])) return code_block(lines, start);
    const heading = heading_line.exec(lines[start]);
    if (heading) return { kind: 'heading', level: heading[1].length, text: heading[2], end: start + 1 };
    if (rule_line.test(lines[start])) return { kind: 'rule', end: start + 1 };
    return item_line.test(lines[start]) ? list_block(lines, start) : paragraph_block(lines, start);
}

/** The blocks of a text, each with the source it came from: equal sources render equally. */
export function parse_blocks(text) {
    const lines = text.replaceAll('\r', '').replaceAll('\t', '    ').split('\n');
    const blocks = [];
    for (let at = 0; at < lines.length;) {
        if (is_blank(lines[at])) {
            ++at;
            continue;
        }
        const block = block_at(lines, at);
        blocks.push({ ...block, source: lines.slice(at, block.end).join('\n') });
        at = block.end;
    }
    return blocks;
}

/** Where the emphasis that opens before `from` closes, or -1. A run of three closes a single and a double. */
function emphasis_end(text, from, delimiter) {
    const mark = delimiter[0];
    for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at)) {
        let run = 1;
        while (text[at + run] === mark) ++run;
        const after = text[at + run] ?? ' ';
        const closes = (run === delimiter.length || run >= 3) && at > from && !/\s/.test(text[at - 1]);
        if (closes && (mark !== '_' || !/\w/.test(after))) return at + run - delimiter.length;
        at += run;
    }
    return -1;
}

/**
 * The emphasis or code that starts at `at`: {node, end}, or null. `hopeless` holds the delimiters that close nowhere in
 * the rest of the text, so that none is looked for twice.
 */
function span_at(text, at, depth, hopeless) {
    const run = /^(`+|\*+|_+)/.exec(text.slice(at, at + 16))[0];
    const is_code = run[0] === '`';
    const delimiter = is_code ? run : run.slice(0, 2);
    const from = at + delimiter.length;
    if (hopeless.has(delimiter) || (!is_code && (/\s/.test(text[from] ?? ' ') || depth >= nesting_max))) return null;
    if (run[0] === '_' && /\w/.test(text[at - 1] ?? ' ')) return null;
    const end = is_code ? text.indexOf(delimiter, from) : emphasis_end(text, from, delimiter);
    if (end < 0) {
        hopeless.add(delimiter);
        return null;
    }
    const inner = text.slice(from, end);
    if (is_code) return { node: element('code', {}, inner.replace(/^ (.*\S.*) $/, '$1')), end: end + delimiter.length };
    const node = element(delimiter.length === 2 ? 'strong' : 'em');
    append_inline(node, inner, depth + 1);
    return { node, end: end + delimiter.length };
}

function append_text(parent, text) {
    text.split('\n').forEach((line, index) => parent.append(...(index ? [element('br')] : []), line));
}

export function append_inline(parent, text, depth = 0) {
    const hopeless = new Set();
    let plain = '';
    for (let at = 0; at < text.length;) {
        const character = text[at];
        if (character === '\\' && /[\\`*_{}[\]()#+.!|~>-]/.test(text[at + 1] ?? '')) {
            plain += text[at + 1];
            at += 2;
            continue;
        }
        const span = '`*_'.includes(character) ? span_at(text, at, depth, hopeless) : null;
        if (span) {
            append_text(parent, plain);
            plain = '';
            parent.append(span.node);
            at = span.end;
            continue;
        }
        // A whole run of marks is passed at once, so that its tail is not taken for a shorter opener.
        do plain += text[at++];
        while ('`*_'.includes(character) && text[at] === character);
    }
    append_text(parent, plain);
}

/** Items indented further than the first of them belong to the item before. */
function render_list(items) {
    const ordered = is_ordered(items[0].marker);
    const start = ordered ? Number.parseInt(items[0].marker, 10) : 1;
    const list = element(ordered ? 'ol' : 'ul', { start: start === 1 ? null : start });
    for (let at = 0; at < items.length;) {
        let end = at + 1;
        while (end < items.length && items[end].indent >= items[at].indent + 2) ++end;
        const item = element('li');
        append_inline(item, items[at].text);
        if (end > at + 1) item.append(render_list(items.slice(at + 1, end)));
        list.append(item);
        at = end;
    }
    return list;
}

function render_block(block) {
    if (block.kind === 'list') return render_list(block.items);
    if (block.kind === 'rule') return element('hr');
    if (block.kind === 'code') {
        return element(
            'figure',
            { class: 'code' },
            element(
                'figcaption',
                {},
                element('span', {}, block.language || 'text'),
                copy_button('Copy code', () => block.text),
            ),
            element('pre', { tabindex: 0 }, element('code', {}, block.text)),
        );
    }
    // The conversation's title is the h1; a model's headings go below it.
    const node = element(block.kind === 'heading' ? `h${Math.min(block.level + 1, 6)}` : 'p');
    append_inline(node, block.text);
    return node;
}

/** Keeps an element equal to a growing text. A block that did not change keeps its nodes, and the reader's selection. */
export class MarkdownView {
    constructor(parent) {
        this.parent = parent;
        this.sources = [];
    }

    update(text) {
        const blocks = parse_blocks(text);
        let same = 0;
        while (same < blocks.length && blocks[same].source === this.sources[same]) ++same;
        while (this.parent.children.length > same) this.parent.lastChild.remove();
        this.parent.append(...blocks.slice(same).map(render_block));
        this.sources = blocks.map((block) => block.source);
    }
}
