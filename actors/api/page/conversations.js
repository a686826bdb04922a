// The conversations and their turns as the page knows them, without any of their looks. Each answer writes into its own
// Turn, whichever conversation is on the screen, so answers that go on at once cannot mix.

import * as api from './api.js';

const title_characters_max = 80;

/**
 * A message and its answer. A turn goes waiting → answering → done | stopped | failed; one that was read from the server
 * is `stored`, and has no measurements.
 */
export class Turn {
    constructor(user, state = 'waiting') {
        this.user = user;
        this.answer = '';
        this.state = state;
        this.error = null;
        this.finish_reason = null;
        this.timings = null;
        this.attention = null;
        this.usage = null;
        this.canceller = new AbortController();
        this.sent_at = performance.now();
        this.first_at = null;
        this.ended_at = null;
    }

    get is_live() {
        return this.state === 'waiting' || this.state === 'answering';
    }
}

/** A conversation without an id is a draft: the server hears of it with its first message. */
export class Conversation {
    constructor(id = null) {
        this.id = id;
        this.title = '';
        this.turns = [];
        this.unread_turns = 0;
        this.tokens = 0;
        this.unsent = '';
        this.is_loaded = id === null;
        this.load_error = null;
        this.has_news = false;
    }

    get live_turn() {
        const last = this.turns.at(-1);
        return last?.is_live ? last : null;
    }

    /** With those of the server that were not read yet; whoever has any is not deleted without a question. */
    get turn_count() {
        return this.unread_turns + this.turns.length;
    }

    get name() {
        return this.title || (this.turn_count > 0 ? this.id : null) || 'New conversation';
    }

    /** A list says how many rounds there are, not what was said in them. */
    take_listed(session) {
        this.tokens = session.tokens ?? 0;
        this.unread_turns = session.round_count ?? rounds_of(session).length;
    }

    take_session(session) {
        this.tokens = session.tokens ?? 0;
        this.unread_turns = 0;
        this.turns = rounds_of(session).map((round) => {
            const turn = new Turn(round.user, 'stored');
            turn.answer = round.assistant ?? '';
            return turn;
        });
        this.entitle();
    }

    entitle() {
        this.title ||= (this.turns[0]?.user ?? '').trim().split('\n')[0].slice(0, title_characters_max);
    }
}

/** The rounds a person took part in; a system prompt is a round too. */
function rounds_of(session) {
    return (session.rounds ?? []).filter((round) => round.user);
}

/** Whether the server kept a turn that did not end well: then its answer is what arrived, or more or less of it. */
function kept_as(turn, round) {
    const answer = round.assistant ?? '';
    if (round.user !== turn.user || (answer === '') !== (turn.answer === '')) return false;
    return answer.startsWith(turn.answer) || turn.answer.startsWith(answer);
}

/**
 * The index of the first round that is none of `turns`, or null. Turns that ended well are rounds for certain; of the
 * others only those the server kept.
 */
function round_after(turns, session) {
    const rounds = rounds_of(session);
    let next = 0;
    for (const turn of turns) {
        const is_certain = turn.state === 'done' || turn.state === 'stored';
        if (next < rounds.length && (is_certain || kept_as(turn, rounds[next]))) ++next;
    }
    return rounds[next]?.index ?? null;
}

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
        for (let page = await api.list_sessions(); ; page = await api.list_sessions(page.last_id)) {
            for (const session of page.data ?? []) {
                if (known.has(session.id)) continue;
                known.add(session.id);
                const conversation = new Conversation(session.id);
                conversation.take_listed(session);
                this.all.push(conversation);
            }
            this.changed('list');
            if (!page.has_more || !page.last_id) return;
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
            conversation.is_loaded = true;
            // A message sent meanwhile is newer than what was read.
            if (conversation.turns.every((turn) => turn.state === 'stored')) conversation.take_session(session);
        } catch (error) {
            conversation.load_error = error;
        }
        this.changed('turns', conversation);
        this.changed('list');
    }

    /** Sends a message; resolves when its answer has ended, however it did. */
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
     * answer begins.
     */
    async replay(conversation, turn, text) {
        const kept = conversation.turns.slice(0, conversation.turns.indexOf(turn));
        const next = new Turn(text);
        conversation.turns = [...kept, next];
        if (kept.length === 0) conversation.title = '';
        conversation.entitle();
        this.changed('turns', conversation);
        this.changed('list');
        await this.#settle(conversation, next, async () => {
            const round = conversation.id === null ? null : round_after(kept, await api.read_session(conversation.id));
            if (round !== null) await api.rewind_session(conversation.id, round);
            await this.#answer(conversation, next);
        });
    }

    async fork(conversation) {
        const session = await api.fork_session(conversation.id);
        const copy = new Conversation(session.id);
        copy.title = conversation.title && `${conversation.title} · fork`;
        copy.take_listed(session);
        this.all.splice(this.all.indexOf(conversation), 0, copy);
        return copy;
    }

    async remove(conversation) {
        this.stop(conversation);
        if (conversation.id !== null) await api.delete_session(conversation.id);
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
        this.changed('turn', conversation, turn);
        this.changed('list');
    }

    async #answer(conversation, turn) {
        const { signal } = turn.canceller;
        if (conversation.id === null) {
            conversation.id = (await api.create_session(this.settings.system)).id;
            this.changed('list');
        }
        this.model ??= (await api.list_models())[0]?.id;
        signal.throwIfAborted();
        const body = {
            model: this.model,
            messages: [{ role: 'user', content: turn.user }],
            conversation: conversation.id,
            continue: true, // a server that has forgotten it must not begin it anew
            temperature: this.settings.temperature,
            max_tokens: this.settings.max_tokens,
            method: this.method, // none chosen: the server's own
        };
        for await (const chunk of api.stream_chat(body, signal)) {
            const choice = chunk.choices?.[0];
            if (choice?.delta?.content) {
                turn.first_at ??= performance.now();
                turn.state = 'answering';
                turn.answer += choice.delta.content;
            }
            turn.finish_reason = choice?.finish_reason ?? turn.finish_reason;
            turn.timings = chunk.timings ?? turn.timings;
            turn.attention = chunk.attention ?? turn.attention;
            turn.usage = chunk.usage ?? turn.usage;
            this.changed('turn', conversation, turn);
        }
    }
}
