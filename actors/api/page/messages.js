// The messages of one conversation, in a scroller of their own. A growing answer is followed only while the reader is at its end.

import { copy_button, element, fit_height, icon, icon_button } from './dom.js';
import { MarkdownView } from './markdown.js';

const end_distance_max = 48;

/** One turn: the message, its answer, and what became of it. */
class TurnView {
    constructor(turn, number, actions) {
        this.turn = turn;
        this.actions = actions;
        this.announced = 0;
        this.text = element('div', { class: 'user-text', 'data-testid': 'message-user' }, turn.user);
        this.edit = icon_button('edit', `Edit message ${number} and answer again`, () => this.#open_editor(), {
            'data-testid': 'edit',
        });
        this.user = element(
            'div',
            { class: 'user', role: 'group', 'aria-label': 'You' },
            this.text,
            element(
                'div',
                { class: 'actions' },
                copy_button('Copy message', () => turn.user),
                this.edit,
            ),
        );
        this.answer = element('div', { class: 'markdown', 'data-testid': 'message-assistant' });
        this.markdown = new MarkdownView(this.answer);
        this.outcome = element('div', { class: 'outcome' });
        this.answer_actions = element(
            'div',
            { class: 'actions' },
            copy_button('Copy answer', () => turn.answer),
        );
        this.root = element(
            'article',
            { class: 'turn', 'aria-label': `Turn ${number}`, tabindex: -1 },
            element('span', { class: 'turn-number', 'aria-hidden': 'true' }, String(number)),
            this.user,
            element(
                'div',
                { class: 'assistant', role: 'group', 'aria-label': 'Answer' },
                this.answer,
                this.outcome,
                this.answer_actions,
            ),
        );
        this.update();
    }

    update() {
        const { turn } = this;
        this.markdown.update(turn.answer);
        this.root.dataset.state = turn.state;
        this.answer.setAttribute('aria-busy', String(turn.is_live));
        if (this.shown_state === turn.state) return;
        this.shown_state = turn.state;
        this.outcome.replaceChildren(...this.#outcome());
        this.answer_actions.hidden = turn.is_live || turn.answer === '';
    }

    /** The paragraphs that are complete and have not been read out, for a screen reader. */
    take_announcement() {
        const complete = this.answer.children.length - (this.turn.is_live ? 1 : 0);
        const blocks = [...this.answer.children].slice(this.announced, Math.max(complete, this.announced));
        this.announced += blocks.length;
        return blocks.map((block) => block.textContent);
    }

    #outcome() {
        const { turn } = this;
        if (turn.state === 'waiting')
            return [icon('ring'), element('span', { class: 'quiet' }, 'Waiting for the first word')];
        if (turn.state === 'stopped') return [element('span', { class: 'quiet' }, 'Stopped')];
        if (turn.state === 'done' && turn.finish_reason === 'length')
            return [element('span', { class: 'quiet' }, 'Ended at the length limit')];
        if (turn.state !== 'failed') return [];
        return [
            element('p', { class: 'failure', role: 'alert', 'data-testid': 'failure' }, turn.error.message),
            element(
                'button',
                {
                    type: 'button',
                    class: 'button',
                    'data-testid': 'retry',
                    click: () => this.actions.replay(turn, turn.user),
                },
                'Retry',
            ),
        ];
    }

    #open_editor() {
        const area = element('textarea', { 'aria-label': 'Edit message', rows: 1 });
        area.value = this.turn.user;
        const close = () => {
            editor.replaceWith(this.user);
            this.edit.focus();
        };
        const send = (event) => {
            event.preventDefault();
            const text = area.value.trim();
            if (text) this.actions.replay(this.turn, text);
        };
        const editor = element(
            'form',
            { class: 'editor', submit: send },
            area,
            element(
                'div',
                { class: 'editor-row' },
                element('span', { class: 'quiet' }, 'This turn and those after it are answered anew.'),
                element('button', { type: 'button', class: 'button', click: close }, 'Cancel'),
                element('button', { class: 'button primary' }, 'Send'),
            ),
        );
        area.addEventListener('input', () => fit_height(area));
        area.addEventListener('keydown', (event) => {
            if (event.key === 'Escape') close();
            if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send(event);
        });
        this.user.replaceWith(editor);
        fit_height(area);
        area.focus();
    }
}

export class ConversationView {
    /** actions: replay(turn, text), retry_load(); announce(text) speaks to a screen reader. */
    constructor(conversation, actions, announce) {
        this.conversation = conversation;
        this.actions = actions;
        this.announce = announce;
        this.views = new Map();
        this.dirty = new Set();
        this.follows_end = true;
        this.last_top = 0;
        this.list = element('div', { class: 'turns' });
        this.notice = element('div', { class: 'load-notice' });
        this.scroller = element(
            'div',
            {
                class: 'scroller',
                role: 'region',
                'aria-label': 'Messages',
                tabindex: 0,
                scroll: () => this.#scrolled(),
            },
            this.notice,
            this.list,
        );
        this.to_end = element(
            'button',
            { type: 'button', class: 'to-end', hidden: true, click: () => this.scroll_to_end() },
            icon('down'),
            'Latest',
        );
        this.root = element('div', { class: 'conversation', hidden: true }, this.scroller, this.to_end);
        this.sync();
    }

    show() {
        this.root.hidden = false;
        if (this.follows_end) this.scroll_to_end();
        else this.scroller.scrollTop = this.last_top;
    }

    hide() {
        this.root.hidden = true;
    }

    /** Makes the turns on the page those of the conversation. */
    sync() {
        const { turns } = this.conversation;
        for (const [turn, view] of this.views) {
            if (turns.includes(turn)) continue;
            view.root.remove();
            this.views.delete(turn);
        }
        turns.forEach((turn, index) => {
            if (this.views.has(turn)) return;
            const view = new TurnView(turn, index + 1, this.actions);
            if (!turn.is_live) view.take_announcement();
            this.views.set(turn, view);
            this.list.append(view.root);
        });
        const { load_error } = this.conversation;
        this.notice.replaceChildren(
            ...(load_error
                ? [
                      element('p', { class: 'failure', role: 'alert' }, load_error.message),
                      element(
                          'button',
                          { type: 'button', class: 'button', click: () => this.actions.retry_load() },
                          'Retry',
                      ),
                  ]
                : []),
        );
        this.#refresh_edits();
        this.scroll_to_end();
    }

    /** Draws a turn that changed, once a frame at most. */
    update(turn) {
        if (this.dirty.size === 0) requestAnimationFrame(() => this.#draw());
        this.dirty.add(turn);
    }

    #draw() {
        for (const turn of this.dirty) {
            const view = this.views.get(turn);
            view?.update();
            const complete = view?.take_announcement() ?? [];
            if (!this.root.hidden) complete.forEach(this.announce);
        }
        this.dirty.clear();
        this.#refresh_edits();
        if (this.follows_end) this.scroll_to_end();
        else this.#show_to_end();
    }

    /** A turn can be edited while none is being answered. */
    #refresh_edits() {
        const is_live = this.conversation.live_turn !== null;
        for (const view of this.views.values()) view.edit.hidden = is_live;
    }

    scroll_to_end() {
        this.follows_end = true;
        this.scroller.scrollTop = this.scroller.scrollHeight;
        this.#show_to_end();
    }

    focus_turn(turn) {
        const root = this.views.get(turn)?.root;
        this.follows_end = false;
        root?.scrollIntoView({ block: 'start' });
        root?.focus({ preventScroll: true });
    }

    /** Only a scroll upwards leaves the end: text that grows moves the end away too, which is no wish of the reader's. */
    #scrolled() {
        if (this.root.hidden) return;
        const { scrollTop, scrollHeight, clientHeight } = this.scroller;
        if (scrollHeight - scrollTop - clientHeight < end_distance_max) this.follows_end = true;
        else if (scrollTop < this.last_top) this.follows_end = false;
        this.last_top = scrollTop;
        this.#show_to_end();
    }

    #show_to_end() {
        const { scrollTop, scrollHeight, clientHeight } = this.scroller;
        this.to_end.hidden = this.follows_end || scrollHeight - scrollTop - clientHeight < end_distance_max;
    }
}
