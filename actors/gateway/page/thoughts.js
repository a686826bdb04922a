// Where a model thinks aloud: <think> … </think> in an answer. Chat templates may have opened the first thought already,
// so that only its end is in the answer.

const thoughts_max = 32;
const opener = /^[ \t]*<think(?:ing)?>/;
const closer = /<\/think(?:ing)?>/;
const fence = /^ {0,3}(`{3,}|~{3,})/;

/** The index of the first thing a thought begins with, outside of fenced code; -1. */
function opener_at(text, from) {
    let fence_mark = null;
    for (let at = from; at < text.length;) {
        const end = text.indexOf('\n', at);
        const line = text.slice(at, end < 0 ? text.length : end);
        const mark = fence.exec(line)?.[1][0] ?? null;
        if (mark && (fence_mark === null || fence_mark === mark)) fence_mark = fence_mark === null ? mark : null;
        else if (fence_mark === null && opener.test(line)) return at;
        if (end < 0) return -1;
        at = end + 1;
    }
    return -1;
}

function closer_at(text, from) {
    const match = closer.exec(text.slice(from));
    return match ? { start: from + match.index, end: from + match.index + match[0].length } : null;
}

/** An end without a beginning, alone at the end of its line, and no beginning before it. */
function end_of_opened(text) {
    const found = closer_at(text, 0);
    if (!found || !/^[ \t]*(?:\n|$)/.test(text.slice(found.end)) || text[found.start - 1] === '`') return null;
    const open = opener_at(text, 0);
    return open >= 0 && open < found.start ? null : found;
}

/** The parts of an answer in order: {kind: 'text' | 'thought', text, is_open}. Only the last thought can be open. */
export function parts_of(answer) {
    if (!answer.includes('think')) return answer === '' ? [] : [{ kind: 'text', text: answer, is_open: false }];
    const parts = [];
    const add = (kind, text, is_open = false) => text.trim() !== '' && parts.push({ kind, text: text.trim(), is_open });
    let at = 0;
    const opened = end_of_opened(answer);
    if (opened) {
        add('thought', answer.slice(0, opened.start));
        at = opened.end;
    }
    while (parts.length < 2 * thoughts_max) {
        const open = opener_at(answer, at);
        if (open < 0) break;
        add('text', answer.slice(at, open));
        const from = answer.indexOf('>', open) + 1;
        const close = closer_at(answer, from);
        if (!close) {
            parts.push({ kind: 'thought', text: answer.slice(from).trim(), is_open: true });
            return parts;
        }
        add('thought', answer.slice(from, close.start));
        at = close.end;
    }
    const rest = answer.slice(at);
    if (rest.trim() !== '') parts.push({ kind: 'text', text: at === 0 ? rest : rest.replace(/^\s*\n/, ''), is_open: false });
    return parts;
}

/** The answer without what its model thought. */
export const spoken = (answer) =>
    parts_of(answer)
        .filter((part) => part.kind === 'text')
        .map((part) => part.text)
        .join('\n\n');
