// The only way by which markup enters the page. What a model writes is text for marked, KaTeX and highlight.js; what these
// make of it passes through DOMPurify, which knows a short list of elements. None of them loads, runs or is styled.

const { DOMPurify } = window;
// Debian 12's 2.4.1+deb12u1 asks a variable of that name for its depth, has none where it asks, and throws: purify.js does
// as purify.min.js does. With this one it goes on, and looks at the depth of every element below; so does is_deeper.
window.shadowNode ??= { __depth: 0 };

const text_tags = [
    ...['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'ins', 'kbd', 'li'],
    ...['mark', 'ol', 'p', 'pre', 's', 'small', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr'],
    ...['u', 'ul', 'x-math'],
];
const math_tags = [
    ...['math', 'menclose', 'merror', 'mfrac', 'mi', 'mn', 'mo', 'mover', 'mpadded', 'mphantom', 'mroot', 'mrow', 'ms'],
    ...['mspace', 'msqrt', 'mstyle', 'msub', 'msubsup', 'msup', 'mtable', 'mtd', 'mtext', 'mtr', 'munder', 'munderover'],
    'semantics',
];
const math_attributes = [
    ...['accent', 'accentunder', 'columnalign', 'columnlines', 'columnspacing', 'depth', 'display', 'displaystyle'],
    ...['fence', 'height', 'largeop', 'linethickness', 'lspace', 'mathbackground', 'mathcolor', 'mathsize'],
    ...['mathvariant', 'maxsize', 'minsize', 'movablelimits', 'notation', 'rowlines', 'rowspacing', 'rspace'],
    ...['scriptlevel', 'separator', 'stretchy', 'symmetric', 'voffset', 'width'],
];
const always = {
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    ALLOW_UNKNOWN_PROTOCOLS: false,
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    IN_PLACE: false,
    RETURN_DOM_FRAGMENT: true,
};

const fragment_of = (markup, tags, attributes) =>
    DOMPurify.sanitize(markup, {
        ...always,
        ALLOWED_TAGS: ['#text', ...tags],
        ALLOWED_ATTR: attributes,
        ADD_URI_SAFE_ATTR: attributes.filter((name) => name !== 'href'), // values of all others must be addresses
    });

/** What marked made of a block. */
export const text_fragment = (markup) =>
    fragment_of(markup, text_tags, ['align', 'display', 'href', 'lang', 'start', 'title']);
/** What KaTeX made of a formula. */
export const math_fragment = (markup) => fragment_of(markup, math_tags, math_attributes);
/** What highlight.js made of code: spans whose classes begin with hljs-. */
export function code_fragment(markup) {
    const fragment = fragment_of(markup, ['span'], ['class']);
    for (const span of fragment.querySelectorAll('[class]'))
        if (!/^hljs-[a-z_-]+$/.test(span.className)) span.removeAttribute('class');
    return fragment;
}

/** Whether elements stand within each other more than `depth_max` deep. */
export function is_deeper(fragment, depth_max) {
    const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_ELEMENT);
    for (let depth = 0; ;) {
        if (walker.firstChild()) depth += 1;
        else
            while (!walker.nextSibling()) {
                if (!walker.parentNode()) return false;
                depth -= 1;
            }
        if (depth > depth_max) return true;
    }
}
