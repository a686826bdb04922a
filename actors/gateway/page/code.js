// Code in a frame with its language, in colours where highlight.js knows the language.

import { copy_button, element } from './dom.js';
import { load } from './libraries.js';
import { code_fragment } from './sanitize.js';

const coloured_characters_max = 32 * 1024;
const coloured_growing_characters_max = 4 * 1024; // of code that is coloured with each word that comes
// highlight.js tries every language on what follows an empty line of HTTP, and again on what follows the next one.
const guessed_languages = ['http', 'https'];

async function colour(code, language) {
    const library = await load('highlight');
    if (!library.getLanguage(language)) return;
    const { value } = library.highlight(language, code.textContent, true);
    code.replaceChildren(code_fragment(value));
}

/** Takes the place of a <pre><code>. */
export function code_figure(pre, is_growing) {
    const language = pre.firstElementChild?.getAttribute('lang') ?? '';
    const text = pre.textContent.replace(/\n$/, '');
    const code = element('code', {}, text);
    const bound = is_growing ? coloured_growing_characters_max : coloured_characters_max;
    const is_coloured = language && !guessed_languages.includes(language.toLowerCase()) && text.length <= bound;
    if (is_coloured) colour(code, language.toLowerCase()).catch(() => {}); // then it stays plain
    return element(
        'figure',
        { class: 'code' },
        element(
            'figcaption',
            {},
            element('span', {}, language || 'text'),
            copy_button('Copy code', () => text),
        ),
        element('pre', { tabindex: 0 }, code),
    );
}
