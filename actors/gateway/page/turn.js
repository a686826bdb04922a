// One turn on the screen: the message, its answer, and what became of it.

import { AnswerView } from './answer.js';
import { copy_button, element, fit_height, icon, icon_button } from './dom.js';
import { spoken } from './thoughts.js';

export class TurnView {
    constructor(turn, number, actions) {
        this.turn = turn;
        this.actions = actions;
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
        this.note = element('p', { class: 'note quiet', 'data-testid': 'note' });
        this.answer = new AnswerView();
        this.outcome = element('div', { class: 'outcome' });
        this.again = icon_button('again', `Answer message ${number} again`, () => actions.replay(turn, turn.user), {
            'data-testid': 'again',
        });
        this.retry = element(
            'button',
            {
                type: 'button',
                class: 'button',
                'data-testid': 'retry',
                click: () => actions.replay(turn, turn.user),
            },
            'Retry',
        );
        this.answer_actions = element(
            'div',
            { class: 'actions' },
            copy_button('Copy answer', () => spoken(turn.answer)),
            this.again,
        );
        this.root = element(
            'article',
            { class: 'turn', 'aria-label': `Turn ${number}`, tabindex: -1 },
            element('span', { class: 'turn-number', 'aria-hidden': 'true' }, String(number)),
            this.user,
            element(
                'div',
                { class: 'assistant', role: 'group', 'aria-label': 'Answer' },
                this.note,
                this.answer.root,
                this.outcome,
                this.answer_actions,
            ),
        );
        this.update();
    }

    update() {
        const { turn } = this;
        this.answer.update(turn);
        this.note.textContent = turn.note;
        this.root.dataset.state = turn.state;
        if (this.shown_state === turn.state) return;
        this.shown_state = turn.state;
        this.outcome.replaceChildren(...this.#outcome());
        this.answer_actions.hidden = !turn.is_said;
    }

    /** The paragraphs that are complete and have not been read out, for a screen reader. */
    take_announcement() {
        return this.answer.take_announcement(this.turn.is_live);
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
            element(
                'div',
                { class: 'failure', role: 'alert' },
                element('p', { 'data-testid': 'failure' }, turn.error.message),
                turn.error.detail && element('p', { class: 'detail' }, `The server says: ${turn.error.detail}`),
            ),
            this.retry,
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
                element('span', { class: 'quiet' }, 'Everything after this message is dropped.'),
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
