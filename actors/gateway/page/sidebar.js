// The list of conversations.

import { element, icon, icon_button } from './dom.js';

function meta_of(conversation) {
    if (conversation.live_turn) return 'Answering…';
    if (conversation.is_kept_here) return 'Kept in this browser';
    const turns = conversation.turn_count;
    if (turns === 0) return 'Not started';
    const tokens = conversation.tokens > 0 ? ` · ${conversation.tokens.toLocaleString('en')} tokens` : '';
    return `${turns} ${turns === 1 ? 'turn' : 'turns'}${tokens}`;
}

function item_of(conversation, is_current, actions) {
    const title = conversation.name;
    const open = element(
        'button',
        {
            type: 'button',
            class: 'item-open',
            'aria-current': is_current ? 'true' : null,
            click: () => actions.open(conversation),
        },
        element('span', { class: 'item-title' }, title),
        element(
            'span',
            { class: 'item-meta' },
            conversation.live_turn && icon('ring'),
            meta_of(conversation),
            conversation.has_news && element('span', { class: 'news' }, 'new answer'),
        ),
    );
    const is_kept = conversation.id !== null;
    return element(
        'li',
        { class: 'item', 'data-testid': 'conversation-item' },
        open,
        element(
            'div',
            { class: 'item-actions' },
            icon_button('edit', `Rename “${title}”`, () => actions.rename(conversation), { 'data-testid': 'rename' }),
            is_kept &&
                !conversation.is_kept_here &&
                icon_button('fork', `Fork “${title}”`, () => actions.fork(conversation), { 'data-testid': 'fork' }),
            (is_kept || conversation.turn_count > 0) &&
                icon_button('trash', `Delete “${title}”`, () => actions.remove(conversation), {
                    'data-testid': 'delete',
                }),
        ),
    );
}

const drawn_max = 300; // each change draws them all anew
let drawn = [];

/** Whether a conversation has the words that are looked for: in its title, or in what the page has read of it. */
const is_found = (conversation, words) =>
    words === '' || conversation.name.toLowerCase().includes(words) || conversation.has_text(words);

/** Draws the list anew; the focus stays on the button it was on. */
export function draw_sidebar(list, conversations, words, actions) {
    const focused = document.activeElement;
    const at = [...list.children].findIndex((item) => item.contains(focused));
    const label = focused?.getAttribute('aria-label');
    const focused_conversation = drawn[at];
    const found = conversations.listed.filter((one) => is_found(one, words));
    drawn = found.filter((one, at) => at < drawn_max || one === conversations.current);
    list.replaceChildren(...drawn.map((one) => item_of(one, one === conversations.current, actions)));
    if (drawn.length === 0) list.append(element('li', { class: 'nothing-found' }, 'No conversation has these words.'));
    const left = found.length - drawn.length;
    if (left > 0) list.append(element('li', { class: 'nothing-found' }, `${left} older ones: searching finds them.`));
    const item = list.children[drawn.indexOf(focused_conversation)];
    [...(item?.querySelectorAll('button') ?? [])]
        .find((button) => button.getAttribute('aria-label') === label)
        ?.focus();
}
