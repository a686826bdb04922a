// marked, with bounds. What a model writes may be anything, so whatever costs more than time in proportion to its length
// is bounded here: nesting, the text of one paragraph, the cells of a table. What is beyond a bound stays plain text.

const { marked } = window;

const nesting_max = 32;
const inline_characters_max = 8 * 1024;
const table_cells_max = 4096;
const formula_characters_max = 4096;
const heading_within = 1024;
export const fence_line = /^ {0,3}(?:`{3}|~{3})/;

// Markup of its own a message may use; all other tags are shown as the text they are.
const plain_tag = /^<(\/?)(b|br|del|em|hr|i|ins|kbd|mark|s|small|strong|sub|sup|u)\s*\/?>$/i;

export const escaped = (text) =>
    text.replace(/[&<>"']/g, (one) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[one]);

class BoundedTokenizer extends marked.Tokenizer {
    depth = 0;

    #deeper(tokenize) {
        if (this.depth >= nesting_max) return undefined;
        this.depth += 1;
        try {
            return tokenize();
        } finally {
            this.depth -= 1;
        }
    }

    blockquote(source) {
        return this.#deeper(() => super.blockquote(source));
    }

    list(source) {
        return this.#deeper(() => super.list(source));
    }

    /** Code that still grows has no end and no newline behind its last line, which marked waits for. */
    fences(source) {
        if (!fence_line.test(source)) return undefined;
        const token = super.fences(source);
        if (token || source.endsWith('\n')) return token;
        const open = super.fences(`${source}\n`);
        return open && { ...open, raw: open.raw.slice(0, source.length) };
    }

    /** Rows are filled up to the width of the head, so a few characters could make very many cells. */
    table(source) {
        const head = source.slice(0, Math.max(source.indexOf('\n'), 0));
        if (!head.includes('|') || !/^[ :|-]*-/.test(source.slice(head.length + 1, head.length + 64))) return undefined;
        const end = source.indexOf('\n\n');
        const rows = (end < 0 ? source : source.slice(0, end)).split('\n').length;
        return rows * head.split('|').length > table_cells_max ? undefined : super.table(source);
    }

    /** A search for the line of = or - would go on to the next empty line, from each paragraph anew. */
    lheading(source) {
        return super.lheading(source.slice(0, heading_within));
    }
}

class BoundedLexer extends marked.Lexer {
    depth = 0;

    inlineTokens(source, tokens = []) {
        if (this.depth >= nesting_max || source.length > inline_characters_max) {
            tokens.push({ type: 'text', raw: source, text: escaped(source) });
            return tokens;
        }
        this.depth += 1;
        try {
            return super.inlineTokens(source, tokens);
        } finally {
            this.depth -= 1;
        }
    }
}

function plain_markup(part) {
    const [, slash, name] = plain_tag.exec(part) ?? [];
    return name ? `<${slash}${name.toLowerCase()}>` : escaped(part);
}

class SafeRenderer extends marked.Renderer {
    code(text, info) {
        const [language] = /^[\w+#.-]{0,32}/.exec(info ?? '');
        return `<pre><code lang="${escaped(language)}">${escaped(text)}</code></pre>`;
    }

    /** The conversation's title is the h1; a model's headings go below it. */
    heading(text, level) {
        return `<h${Math.min(level + 1, 6)}>${text}</h${Math.min(level + 1, 6)}>`;
    }

    html(source) {
        const parts = source.match(/<[^<>]{0,64}>|[^<]+|</g) ?? [];
        return parts.map(plain_markup).join('');
    }

    /** An image would be loaded, and tell its server that somebody reads this. */
    image(href, title, text) {
        return this.link(href, title, `Image: ${text || 'without a name'}`);
    }

    checkbox(is_checked) {
        return is_checked ? '☑ ' : '☐ ';
    }
}

/** The formula between `opener` and `closer` at the source's beginning, or null. */
function formula_at(source, opener, closer, is_display) {
    if (!source.startsWith(opener)) return null;
    const window_end = opener.length + formula_characters_max + closer.length;
    const end = source.slice(0, window_end).indexOf(closer, opener.length);
    const tex = source.slice(opener.length, end);
    if (end < 0 || tex.trim() === '' || /\n[ \t]*\n/.test(tex)) return null;
    return { raw: source.slice(0, end + closer.length), tex, is_display };
}

/** `$…$` is a formula as pandoc has it, so that prices stay prices. */
function dollar_formula(source) {
    const match = /^\$(?![\s$])((?:\\.|[^\\$\n]){1,1000})(?<!\s)\$(?![\d\p{L}])/u.exec(source.slice(0, 1100));
    return match && { raw: match[0], tex: match[1], is_display: false };
}

const first_of = (source, marks) => {
    const found = marks.map((mark) => source.indexOf(mark)).filter((at) => at >= 0);
    return found.length > 0 ? Math.min(...found) : undefined;
};
const renderer_of = ({ tex, is_display }) => `<x-math${is_display ? ' display="block"' : ''}>${escaped(tex)}</x-math>`;

const display_formula = {
    name: 'display_formula',
    level: 'block',
    tokenizer(source) {
        const [indent] = /^ {0,3}/.exec(source);
        const rest = source.slice(indent.length);
        const found = formula_at(rest, '$$', '$$', true) ?? formula_at(rest, '\\[', '\\]', true);
        const line_end = found && /^[ \t]*(?:\n|$)/.exec(rest.slice(found.raw.length, found.raw.length + 256));
        if (!line_end) return undefined;
        return { type: 'display_formula', ...found, raw: indent + found.raw + line_end[0] };
    },
    renderer: renderer_of,
};
const formula = {
    name: 'formula',
    level: 'inline',
    start: (source) => first_of(source, ['$', '\\(', '\\[']),
    tokenizer(source) {
        const found =
            formula_at(source, '$$', '$$', true) ??
            formula_at(source, '\\[', '\\]', true) ??
            formula_at(source, '\\(', '\\)', false) ??
            dollar_formula(source);
        return found ? { type: 'formula', ...found } : undefined;
    },
    renderer: renderer_of,
};

marked.use({ extensions: [display_formula, formula] });

const options = () => ({
    ...marked.defaults,
    breaks: true,
    gfm: true,
    headerIds: false,
    mangle: false,
    renderer: new SafeRenderer(),
    tokenizer: new BoundedTokenizer(),
});

/** The blocks of a text, as their sources; `links` are the destinations that it defines. */
export function split_blocks(text) {
    const lexer = new BoundedLexer(options());
    lexer.blockTokens(text, lexer.tokens);
    return { sources: lexer.tokens.map((token) => token.raw), links: lexer.tokens.links };
}

/** The markup of one block; what comes of it is for sanitize.js. */
export function markup_of(source, links) {
    const given = options();
    const lexer = new BoundedLexer(given);
    Object.assign(lexer.tokens.links, links);
    return marked.Parser.parse(lexer.lex(source), given);
}
