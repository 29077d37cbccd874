insert into document (body) values (:body::jsonb);
