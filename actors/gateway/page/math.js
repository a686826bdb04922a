// Formulas as MathML, by KaTeX. Browsers show MathML Core, which has no mathvariant and no columnalign; letters of a
// variant become the characters that Unicode has for them, and columns get classes.

import { load } from './libraries.js';
import { math_fragment } from './sanitize.js';

const formulas_kept_max = 256;
const long_formula_characters = 48;
const made = new Map(); // markup by formula, the one used last at the end
const definers = /^\\(?:[egx]?def|let|futurelet|(?:new|provide|renew)command)$/;

/** The first capital, small letter and digit of each variant; Unicode put some letters elsewhere before it had the rest. */
const variants = {
    bold: [0x1d400, 0x1d41a, 0x1d7ce],
    italic: [0x1d434, 0x1d44e],
    'bold-italic': [0x1d468, 0x1d482],
    script: [0x1d49c, 0x1d4b6],
    fraktur: [0x1d504, 0x1d51e],
    'double-struck': [0x1d538, 0x1d552, 0x1d7d8],
    'sans-serif': [0x1d5a0, 0x1d5ba, 0x1d7e2],
    'bold-sans-serif': [0x1d5d4, 0x1d5ee, 0x1d7ec],
    'sans-serif-italic': [0x1d608, 0x1d622],
    monospace: [0x1d670, 0x1d68a, 0x1d7f6],
};
const elsewhere = {
    italic: { h: 'ℎ' },
    script: { B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ', e: 'ℯ', g: 'ℊ', o: 'ℴ' },
    fraktur: { C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ' },
    'double-struck': { C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ' },
};

function in_variant(letter, variant) {
    const [capitals, smalls, digits] = variants[variant];
    const other = elsewhere[variant]?.[letter];
    if (other) return other;
    if (/[A-Z]/.test(letter)) return String.fromCodePoint(capitals + letter.charCodeAt(0) - 65);
    if (/[a-z]/.test(letter)) return String.fromCodePoint(smalls + letter.charCodeAt(0) - 97);
    if (/\d/.test(letter) && digits) return String.fromCodePoint(digits + Number(letter));
    return letter;
}

function apply_variants(fragment) {
    for (const node of fragment.querySelectorAll('[mathvariant]')) {
        const variant = node.getAttribute('mathvariant');
        if (variant === 'normal' || !Object.hasOwn(variants, variant)) continue;
        node.removeAttribute('mathvariant');
        if (node.childElementCount > 0) continue;
        node.textContent = [...node.textContent].map((letter) => in_variant(letter, variant)).join('');
        if (node.localName === 'mi') node.setAttribute('mathvariant', 'normal'); // no second slant
    }
}

function align_columns(fragment) {
    for (const table of fragment.querySelectorAll('mtable[columnalign]')) {
        const sides = table.getAttribute('columnalign').split(/\s+/);
        for (const row of table.children)
            [...row.children].forEach((cell, at) => {
                const side = sides[Math.min(at, sides.length - 1)];
                if (side === 'left' || side === 'right') cell.setAttribute('class', side);
            });
    }
}

/**
 * Whether a formula defines macros, or uses the inner words of KaTeX's own. KaTeX bounds how often macros are expanded,
 * not what they grow to: with \edef a formula of 400 characters would fill the memory.
 */
function may_grow(tex) {
    const words = tex.match(/\\(?:[a-z@]+|[^])/gi) ?? [];
    return words.some((word) => definers.test(word) || word.includes('@'));
}

/** KaTeX escapes all text, so its own tags and attributes are the only ones that can be found here. */
function markup_of(katex, tex, is_display) {
    if (may_grow(tex)) throw new Error('The formula defines macros.');
    const whole = katex.renderToString(tex, {
        output: 'mathml',
        displayMode: is_display,
        throwOnError: true,
        strict: 'ignore',
        trust: false,
        maxExpand: 500,
        maxSize: 10,
    });
    const math = whole.slice(whole.indexOf('<math'), whole.lastIndexOf('</math>') + '</math>'.length);
    return math.replace(/<annotation [^]*<\/annotation>/, '').replace(/ style="[^"]*"/g, '');
}

function remembered_markup(katex, tex, is_display) {
    const key = `${is_display} ${tex}`;
    const markup = made.get(key) ?? markup_of(katex, tex, is_display);
    made.delete(key);
    made.set(key, markup);
    if (made.size > formulas_kept_max) made.delete(made.keys().next().value);
    return markup;
}

async function typeset_later(node, tex, is_display) {
    try {
        const fragment = math_fragment(remembered_markup(await load('katex'), tex, is_display));
        apply_variants(fragment);
        align_columns(fragment);
        node.replaceChildren(fragment);
    } catch {
        node.className += ' not-typeset'; // KaTeX does not know it, or is not there: the source says more than nothing
    }
}

/** Fills an <x-math> whose text is TeX. Until KaTeX is there it shows that. */
export function typeset(node) {
    const tex = node.textContent;
    const is_display = node.getAttribute('display') === 'block';
    node.removeAttribute('display');
    node.className = is_display ? 'formula display' : 'formula';
    if (!is_display && tex.length > long_formula_characters) node.className += ' long';
    if (is_display) node.tabIndex = 0;
    typeset_later(node, tex, is_display);
}
