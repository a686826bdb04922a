// The messages of one conversation in a scroller of their own. A growing answer is followed while its end is in sight.

import { element, icon } from './dom.js';
import { TurnView } from './turn.js';

const end_distance_max = 48;

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
        this.system_text = element('p', { class: 'plain' });
        this.system = element(
            'details',
            { class: 'system-shown', 'data-testid': 'system' },
            element('summary', {}, 'System prompt'),
            this.system_text,
        );
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
            this.system,
            this.list,
        );
        this.to_end = element(
            'button',
            { type: 'button', class: 'to-end', hidden: true, click: () => this.scroll_to_end() },
            icon('down'),
            'Latest',
        );
        this.root = element('div', { class: 'conversation', hidden: true }, this.scroller, this.to_end);
        const sizes = new ResizeObserver(() => this.#resized());
        sizes.observe(this.scroller);
        sizes.observe(this.list);
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
        this.#show_load_error();
        this.#refresh_edits();
        this.#show_system();
        this.scroll_to_end();
    }

    #show_system() {
        this.system.hidden = this.conversation.system === '' || this.conversation.turns.length === 0;
        this.system_text.textContent = this.conversation.system;
    }

    #show_load_error() {
        const { load_error } = this.conversation;
        this.notice.replaceChildren();
        if (!load_error) return;
        const retry = element('button', { type: 'button', class: 'button' }, 'Retry');
        retry.addEventListener('click', () => this.actions.retry_load());
        this.notice.append(element('p', { class: 'failure', role: 'alert' }, load_error.message), retry);
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
        this.#show_system();
    }

    /** A turn can be edited while none is being answered. Only the last is tried again: that drops no other. */
    #refresh_edits() {
        const is_live = this.conversation.live_turn !== null;
        const last = this.conversation.turns.at(-1);
        for (const view of this.views.values()) {
            view.edit.hidden = is_live;
            view.again.hidden = view.retry.hidden = is_live || view.turn !== last;
        }
    }

    scroll_to_end() {
        this.follows_end = true;
        this.scroller.scrollTop = this.scroller.scrollHeight;
        this.#show_to_end();
    }

    focus_turn(turn) {
        const root = this.views.get(turn)?.root;
        root?.scrollIntoView({ block: 'start' });
        root?.focus({ preventScroll: true });
        this.follows_end = this.#is_at_end();
        this.#show_to_end();
    }

    /** The text grew, or the window changed. */
    #resized() {
        if (this.root.hidden) return;
        if (this.follows_end) this.scroll_to_end();
        else this.#show_to_end();
    }

    #is_at_end() {
        const { scrollTop, scrollHeight, clientHeight } = this.scroller;
        return scrollHeight - scrollTop - clientHeight < end_distance_max;
    }

    /** Only a scroll upwards leaves the end: growing text moves the end away too, which is no wish of the reader's. */
    #scrolled() {
        if (this.root.hidden) return;
        const { scrollTop } = this.scroller;
        if (this.#is_at_end()) this.follows_end = true;
        else if (scrollTop < this.last_top) this.follows_end = false;
        this.last_top = scrollTop;
        this.#show_to_end();
    }

    #show_to_end() {
        this.to_end.hidden = this.follows_end || this.#is_at_end();
    }
}
