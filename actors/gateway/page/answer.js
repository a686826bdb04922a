// The answer of a turn on the screen: what its model said as Markdown, what it thought folded away.

import { element } from './dom.js';
import { MarkdownView } from './markdown.js';
import { parts_of } from './thoughts.js';

function words_of(text) {
    const count = text.split(/\s+/).filter(Boolean).length;
    return `${count.toLocaleString('en')} ${count === 1 ? 'word' : 'words'}`;
}

/** A thought is read only when somebody opens it: it may be far longer than the answer. */
class ThoughtView {
    constructor() {
        this.label = element('span', {});
        this.body = element('div', { class: 'markdown' });
        this.markdown = new MarkdownView(this.body);
        this.root = element(
            'details',
            { class: 'thought', 'data-testid': 'thought', toggle: () => this.#draw() },
            element('summary', {}, this.label),
            this.body,
        );
    }

    update(text, is_growing) {
        this.text = text;
        this.is_growing = is_growing;
        this.label.textContent = is_growing ? `Thinking… ${words_of(text)}` : `Thought, ${words_of(text)}`;
        this.#draw();
    }

    #draw() {
        if (this.root.open) this.markdown.update(this.text, this.is_growing);
    }
}

class TextView {
    constructor() {
        this.root = element('div', { class: 'markdown', 'data-testid': 'message-assistant' });
        this.markdown = new MarkdownView(this.root);
    }

    update(text, is_growing) {
        this.markdown.update(text, is_growing);
    }
}

export class AnswerView {
    constructor() {
        this.root = element('div', { class: 'answer' });
        this.parts = []; // {kind, view}
        this.announced = 0;
    }

    update(turn) {
        const parts = parts_of(turn.answer);
        if (turn.thought) parts.unshift({ kind: 'thought', text: turn.thought, is_open: turn.answer === '' });
        if (parts.length === 0) parts.push({ kind: 'text', text: '', is_open: false });
        let same = 0;
        while (same < parts.length && this.parts[same]?.kind === parts[same].kind) same += 1;
        for (const { view } of this.parts.splice(same)) view.root.remove();
        parts.forEach(({ kind, text, is_open }, at) => {
            if (at >= same) {
                const view = kind === 'thought' ? new ThoughtView() : new TextView();
                this.parts.push({ kind, view });
                this.root.append(view.root);
            }
            const is_last = at === parts.length - 1;
            this.parts[at].view.update(text, turn.is_live && (kind === 'thought' ? is_open : is_last));
        });
        this.root.setAttribute('aria-busy', String(turn.is_live));
    }

    /** The paragraphs that are complete and have not been read out, for a screen reader. Thoughts are not. */
    take_announcement(is_live) {
        const blocks = this.parts.flatMap(({ kind, view }) => (kind === 'text' ? [...view.root.children] : []));
        const complete = Math.max(blocks.length - (is_live ? 1 : 0), this.announced);
        const news = blocks.slice(this.announced, complete);
        this.announced += news.length;
        return news.map((block) => block.textContent);
    }
}
