// The conversations and their turns as the page knows them, without any of their looks. Each answer writes into its own
// Turn, whichever conversation is on the screen, so answers that go on at once cannot mix.

import * as api from './api.js';
import { Conversation, round_after, Turn } from './conversation.js';
import { forget_kept, keep, kept_conversation, kept_conversations } from './storage.js';

/**
 * All conversations. `changed(what, conversation, turn)` hears of the list (titles, counts, order), of turns (some of a
 * conversation came or went), and of a turn (it grew or ended).
 */
export class Conversations {
    constructor(settings, changed) {
        this.settings = settings;
        this.changed = changed;
        this.all = [];
        this.current = null;
        this.model = undefined;
    }

    /** Takes in the conversations of the server that the page does not know yet, page by page. */
    async load() {
        const known = new Set(this.all.map((conversation) => conversation.id));
        try {
            for (let page = await api.list_sessions(); ; page = await api.list_sessions(page.last_id)) {
                for (const session of page.data ?? []) {
                    if (known.has(session.id)) continue;
                    known.add(session.id);
                    const conversation = new Conversation(session.id);
                    conversation.take_listed(session);
                    this.all.push(conversation);
                }
                if (!page.has_more || !page.last_id) break;
            }
            this.#add_kept(known);
        } finally {
            this.changed('list'); // also of what came before a page that could not be read
        }
    }

    /** The server does not list them any more; here they can be read, and gone on with. */
    #add_kept(known) {
        for (const kept of kept_conversations()) {
            if (known.has(kept.id)) continue;
            const conversation = new Conversation(kept.id);
            conversation.take_kept(kept);
            this.all.push(conversation);
        }
    }

    /** What a list shows: a draft nobody has touched only while it is open. */
    get listed() {
        return this.all.filter(
            (one) => one.id !== null || one === this.current || one.turns.length > 0 || one.unsent.trim() !== '',
        );
    }

    /** There is at most one draft. */
    draft() {
        let draft = this.all.find((conversation) => conversation.id === null && conversation.turns.length === 0);
        if (!draft) {
            draft = new Conversation();
            this.all.unshift(draft);
            this.changed('list');
        }
        return draft;
    }

    /** Makes a conversation the current one and reads its turns when that has not been done. */
    async open(conversation) {
        this.current = conversation;
        conversation.has_news = false;
        this.changed('list');
        if (conversation.is_loaded) return;
        conversation.load_error = null;
        try {
            const session = await api.read_session(conversation.id);
            if (conversation.is_loaded) return; // by another reading; what was said since is newer
            conversation.take_session(session);
        } catch (error) {
            if (conversation.is_loaded) return;
            const kept = error.is_forgotten ? kept_conversation(conversation.id) : null;
            if (kept) conversation.take_kept(kept);
            else conversation.load_error = error;
        }
        this.changed('turns', conversation);
        this.changed('list');
    }

    /**
     * Sends a message; resolves when its answer has ended, however it did. The turns before it must have been read: what
     * the page does not know it would drop on the server with the next edit.
     */
    async send(conversation, text) {
        const turn = new Turn(text);
        conversation.turns.push(turn);
        conversation.entitle();
        this.changed('turns', conversation);
        this.changed('list');
        await this.#settle(conversation, turn, () => this.#answer(conversation, turn));
    }

    stop(conversation) {
        conversation.live_turn?.canceller.abort();
    }

    /**
     * Sends `text` in place of `turn`. It and the turns after it are dropped: here at once, on the server before the new
     * answer begins. Not while another answer is under way, nor in place of a turn that has gone.
     */
    async replay(conversation, turn, text) {
        const at = conversation.turns.indexOf(turn);
        if (at < 0 || conversation.live_turn || !conversation.is_loaded) return;
        const kept = conversation.turns.slice(0, at);
        const next = new Turn(text);
        if (kept.length === 0 && !conversation.is_renamed) conversation.title = '';
        conversation.turns = [...kept, next];
        conversation.entitle();
        this.changed('turns', conversation);
        this.changed('list');
        await this.#settle(conversation, next, async () => {
            await this.#rewind(conversation, kept); // to its end: what went here must go there
            next.canceller.signal.throwIfAborted();
            await this.#answer(conversation, next);
        });
    }

    /** Makes the server forget what comes after some turns. */
    async #rewind(conversation, kept) {
        if (conversation.id === null) return;
        try {
            const round = round_after(kept, await api.read_session(conversation.id));
            if (round !== null) await api.rewind_session(conversation.id, round);
        } catch (error) {
            if (!error.is_forgotten) throw error;
        }
    }

    async fork(conversation) {
        const session = await api.fork_session(conversation.id);
        const copy = new Conversation(session.id);
        copy.take_listed(session);
        this.all.splice(Math.max(0, this.all.indexOf(conversation)), 0, copy);
        this.changed('list');
        const title = [...(conversation.title ?? '')].slice(0, 150).join(''); // whole characters
        if (title) await this.rename(copy, `${title} · fork`).catch(() => {}); // a title is no reason to fail
        return copy;
    }

    /** The server checks the title; one that has forgotten the conversation hears of it with the next message. */
    async rename(conversation, title) {
        try {
            if (conversation.id !== null) await api.rename_session(conversation.id, title);
            else conversation.given_title = title;
        } catch (error) {
            if (!error.is_forgotten) throw error;
            conversation.given_title = title;
        }
        conversation.title = title;
        this.#keep(conversation);
        this.changed('list');
    }

    #keep(conversation) {
        if (conversation.id === null || !conversation.is_loaded || conversation.is_removed) return;
        const { as_kept } = conversation;
        if (this.settings.keeps && as_kept.turns.length > 0) keep(as_kept);
    }

    async remove(conversation) {
        this.stop(conversation);
        try {
            if (conversation.id !== null) await api.delete_session(conversation.id);
        } catch (error) {
            if (!error.is_forgotten) throw error; // there is nothing to delete any more
        }
        conversation.is_removed = true;
        forget_kept(conversation.id);
        this.all = this.all.filter((other) => other !== conversation);
        this.changed('list');
    }

    /** Runs the work of a turn and gives the turn exactly one end. */
    async #settle(conversation, turn, work) {
        try {
            await work();
            turn.state = 'done';
        } catch (error) {
            turn.state = turn.canceller.signal.aborted ? 'stopped' : 'failed';
            turn.error = error;
        }
        turn.ended_at = performance.now();
        if (turn.usage) conversation.tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens;
        conversation.has_news = conversation !== this.current;
        this.#keep(conversation);
        this.changed('turn', conversation, turn);
        this.changed('list');
    }

    async #answer(conversation, turn) {
        const { signal } = turn.canceller;
        const history = conversation.history_before(turn);
        const is_new = conversation.id === null;
        if (is_new) {
            conversation.system = this.settings.system;
            conversation.id = (await api.create_session(conversation.system)).id;
            if (conversation.is_removed) await api.delete_session(conversation.id).catch(() => {}); // while it was begun
            this.changed('list');
        }
        this.model ??= (await api.list_models())[0]?.id;
        signal.throwIfAborted();
        try {
            // A server that has forgotten the conversation must not begin it anew with this message alone.
            await this.#stream(conversation, turn, is_new ? history : [], true);
        } catch (error) {
            if (!error.is_forgotten || signal.aborted) throw error;
            if (history.length > 0) turn.note = 'The server had forgotten this conversation. The page sent it again.';
            const { system } = conversation;
            const whole = system ? [{ role: 'system', content: system }, ...history] : history;
            await this.#stream(conversation, turn, whole, false);
            if (conversation.is_renamed) conversation.given_title = conversation.title;
        }
        conversation.is_kept_here = false;
        await this.#tell_title(conversation);
    }

    async #tell_title(conversation) {
        if (!conversation.given_title) return;
        await api.rename_session(conversation.id, conversation.given_title).catch(() => {}); // a title is no reason to fail
        conversation.given_title = '';
    }

    async #stream(conversation, turn, before, goes_on) {
        const { temperature, top_p, max_tokens, seed, method, budget_tokens } = this.settings;
        const body = {
            model: this.model,
            messages: [...before, { role: 'user', content: turn.user }],
            conversation: conversation.id,
            continue: goes_on || undefined,
            ...{ temperature, top_p, max_tokens, seed },
            // None chosen: the server's own.
            method: method && method !== 'dense' && budget_tokens ? { name: method, budget_tokens } : method,
        };
        for await (const chunk of api.stream_chat(body, turn.canceller.signal)) {
            const choice = chunk.choices?.[0];
            const { content = '', reasoning_content = '' } = choice?.delta ?? {};
            if (content || reasoning_content) {
                turn.first_at ??= performance.now();
                turn.state = 'answering';
                turn.answer += content ?? '';
                turn.thought += reasoning_content ?? '';
            }
            turn.finish_reason = choice?.finish_reason ?? turn.finish_reason;
            turn.timings = chunk.timings ?? turn.timings;
            turn.attention = chunk.attention ?? turn.attention;
            turn.usage = chunk.usage ?? turn.usage;
            this.changed('turn', conversation, turn);
        }
    }
}
